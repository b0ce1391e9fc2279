# Generated from src/lockfast/testing/_async/contract/sequencing.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""Sequencers, by which others ask whether a lease still holds; each test names the law it serves.

The law: a sequencer of an ended lease is never current.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from lockfast.core.sequencing import from_text
from lockfast.errors import ConfigurationError
from lockfast.testing._sync.contract.subject import Subject, requires


class LawsOfSequencing(Subject):
    """Where the store can say for sure who holds."""

    @requires("sequencers")
    def test_law_03_a_sequencer_is_current_while_its_lease_holds(self) -> None:
        """Asked by another client, as often as it likes; a renewal changes nothing."""
        locks, others = self.locks(), self.locks()
        lease = locks.lock("door").acquire()
        text = lease.sequencer
        assert others.is_current(text)

        lease.renew()

        assert lease.sequencer == text
        assert others.is_current(text)
        assert locks.is_current(text)
        lease.release()

    @requires("sequencers")
    def test_law_03_a_sequencer_of_a_released_lease_is_never_current(self) -> None:
        """Neither while nobody holds the name nor when somebody does, the same client too."""
        locks, others = self.locks(), self.locks()
        with locks.lock("door") as lease:
            text = lease.sequencer

        assert not others.is_current(text)
        with locks.lock("door") as successor:
            assert not others.is_current(text)
            assert others.is_current(successor.sequencer)

    @requires("sequencers")
    def test_law_03_a_sequencer_of_a_broken_lease_is_never_current(self) -> None:
        """From the break on, though its holder has not heard of it."""
        locks, others = self.locks(), self.locks()
        lease = locks.lock("door").acquire()

        others.break_("door")

        assert not others.is_current(lease.sequencer)

    @requires("sequencers")
    def test_law_03_a_sequencer_of_an_expired_lease_is_never_current(self) -> None:
        """Its holder fell silent: once the store has ended it, and whoever comes next."""
        others = self.locks()
        lease = self.locks(ttl=self.ttl).lock("door", renew=False).acquire()
        text = lease.sequencer

        self.pass_ttl()
        with others.lock("door", timeout=self.patience):
            assert not others.is_current(text)

        assert not others.is_current(text)

    @requires("sequencers")
    def test_law_03_what_min_hold_keeps_closed_is_not_current(self) -> None:
        """Nobody holds it, though nobody else gets it yet."""
        locks = self.locks()
        with locks.lock("door", min_hold=20.0) as lease:
            text = lease.sequencer

        assert not locks.is_current(text)

    @requires("sequencers")
    @requires("shared")
    def test_law_03_a_sequencer_is_of_its_own_hold_and_mode(self) -> None:
        """Of readers that hold together each has its own, and a writer's is another's."""
        locks, others = self.locks(), self.locks()
        first = locks.rwlock("config").read().acquire()
        second = others.rwlock("config").read().acquire()
        text = first.sequencer
        assert others.is_current(text)
        assert others.is_current(second.sequencer)

        first.release()

        assert not others.is_current(text)
        assert locks.is_current(second.sequencer)
        second.release()
        with locks.rwlock("config").write() as writer:
            assert others.is_current(writer.sequencer)
            assert not others.is_current(second.sequencer)

    @requires("sequencers")
    @requires("explicit_owner")
    def test_law_03_the_sequencer_of_an_explicit_owner_lasts_as_long_as_its_hold(
        self,
    ) -> None:
        """All who name that owner share one hold, and its end is that of the last."""
        locks, others = self.locks(), self.locks()
        first = locks.lock("door", owner="saga").acquire()
        second = others.lock("door", owner="saga").acquire()
        assert first.sequencer == second.sequencer

        first.release()
        assert locks.is_current(first.sequencer)
        second.release()

        assert not locks.is_current(first.sequencer)

    @requires("sequencers")
    def test_law_12_a_sequencer_of_one_name_says_nothing_of_another(self) -> None:
        """Any name: what is in it cannot be read as another's."""
        locks = self.locks()
        names = ("door", "door ", 'a":"b', "türe/☃")
        leases = [locks.lock(name).acquire() for name in names]
        leases[0].release()

        assert not locks.is_current(leases[0].sequencer)
        for lease in leases[1:]:
            assert locks.is_current(lease.sequencer)
            lease.release()

    @requires("sequencers")
    def test_law_12_a_sequencer_of_another_store_says_nothing_of_this_one(self) -> None:
        """Though name and token are equal, as those of two namespaces or two servers may be."""
        locks, others = self.locks(), self.locks()
        with locks.lock("door") as theirs:
            elsewhere = from_text(theirs.sequencer)

        with locks.lock("door") as lease:
            alike = replace(elsewhere, token=lease.token)

            assert not others.is_current(alike.to_text())

    @requires("sequencers")
    def test_law_11_what_is_no_sequencer_is_refused(self) -> None:
        """A mistake is told as one, and not as a lease that is over."""
        locks = self.locks()

        for text in ("", "door", "lockfast-sequencer-1:", "lockfast-lease-1:e30"):
            with pytest.raises(ConfigurationError, match="not the text of a sequencer"):
                locks.is_current(text)
