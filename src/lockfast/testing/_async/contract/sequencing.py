"""Sequencers, by which others ask whether a lease still holds; each test names the law it serves.

The law: a sequencer of an ended lease is never current.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from lockfast.core.sequencing import from_text
from lockfast.errors import ConfigurationError
from lockfast.testing._async.contract.subject import AsyncSubject, requires


class AsyncLawsOfSequencing(AsyncSubject):
    """Where the store can say for sure who holds."""

    @requires("sequencers")
    async def test_law_03_a_sequencer_is_current_while_its_lease_holds(self) -> None:
        """Asked by another client, as often as it likes; a renewal changes nothing."""
        locks, others = self.locks(), self.locks()
        lease = await locks.lock("door").acquire()
        text = lease.sequencer
        assert await others.is_current(text)

        await lease.renew()

        assert lease.sequencer == text
        assert await others.is_current(text)
        assert await locks.is_current(text)
        await lease.release()

    @requires("sequencers")
    async def test_law_03_a_sequencer_of_a_released_lease_is_never_current(self) -> None:
        """Neither while nobody holds the name nor when somebody does, the same client too."""
        locks, others = self.locks(), self.locks()
        async with locks.lock("door") as lease:
            text = lease.sequencer

        assert not await others.is_current(text)
        async with locks.lock("door") as successor:
            assert not await others.is_current(text)
            assert await others.is_current(successor.sequencer)

    @requires("sequencers")
    async def test_law_03_a_sequencer_of_a_broken_lease_is_never_current(self) -> None:
        """From the break on, though its holder has not heard of it."""
        locks, others = self.locks(), self.locks()
        lease = await locks.lock("door").acquire()

        await others.break_("door")

        assert not await others.is_current(lease.sequencer)

    @requires("sequencers")
    async def test_law_03_a_sequencer_of_an_expired_lease_is_never_current(self) -> None:
        """Its holder fell silent: once the store has ended it, and whoever comes next."""
        others = self.locks()
        lease = await self.locks(ttl=self.ttl).lock("door", renew=False).acquire()
        text = lease.sequencer

        await self.pass_ttl()
        async with others.lock("door", timeout=self.patience):
            assert not await others.is_current(text)

        assert not await others.is_current(text)

    @requires("sequencers")
    async def test_law_03_what_min_hold_keeps_closed_is_not_current(self) -> None:
        """Nobody holds it, though nobody else gets it yet."""
        locks = self.locks()
        async with locks.lock("door", min_hold=20.0) as lease:
            text = lease.sequencer

        assert not await locks.is_current(text)

    @requires("sequencers")
    @requires("shared")
    async def test_law_03_a_sequencer_is_of_its_own_hold_and_mode(self) -> None:
        """Of readers that hold together each has its own, and a writer's is another's."""
        locks, others = self.locks(), self.locks()
        first = await locks.rwlock("config").read().acquire()
        second = await others.rwlock("config").read().acquire()
        text = first.sequencer
        assert await others.is_current(text)
        assert await others.is_current(second.sequencer)

        await first.release()

        assert not await others.is_current(text)
        assert await locks.is_current(second.sequencer)
        await second.release()
        async with locks.rwlock("config").write() as writer:
            assert await others.is_current(writer.sequencer)
            assert not await others.is_current(second.sequencer)

    @requires("sequencers")
    @requires("explicit_owner")
    async def test_law_03_the_sequencer_of_an_explicit_owner_lasts_as_long_as_its_hold(
        self,
    ) -> None:
        """All who name that owner share one hold, and its end is that of the last."""
        locks, others = self.locks(), self.locks()
        first = await locks.lock("door", owner="saga").acquire()
        second = await others.lock("door", owner="saga").acquire()
        assert first.sequencer == second.sequencer

        await first.release()
        assert await locks.is_current(first.sequencer)
        await second.release()

        assert not await locks.is_current(first.sequencer)

    @requires("sequencers")
    async def test_law_12_a_sequencer_of_one_name_says_nothing_of_another(self) -> None:
        """Any name: what is in it cannot be read as another's."""
        locks = self.locks()
        names = ("door", "door ", 'a":"b', "türe/☃")
        leases = [await locks.lock(name).acquire() for name in names]
        await leases[0].release()

        assert not await locks.is_current(leases[0].sequencer)
        for lease in leases[1:]:
            assert await locks.is_current(lease.sequencer)
            await lease.release()

    @requires("sequencers")
    async def test_law_12_a_sequencer_of_another_store_says_nothing_of_this_one(self) -> None:
        """Though name and token are equal, as those of two namespaces or two servers may be."""
        locks, others = self.locks(), self.locks()
        async with locks.lock("door") as theirs:
            elsewhere = from_text(theirs.sequencer)

        async with locks.lock("door") as lease:
            alike = replace(elsewhere, token=lease.token)

            assert not await others.is_current(alike.to_text())

    @requires("sequencers")
    async def test_law_11_what_is_no_sequencer_is_refused(self) -> None:
        """A mistake is told as one, and not as a lease that is over."""
        locks = self.locks()

        for text in ("", "door", "lockfast-sequencer-1:", "lockfast-lease-1:e30"):
            with pytest.raises(ConfigurationError, match="not the text of a sequencer"):
                await locks.is_current(text)
