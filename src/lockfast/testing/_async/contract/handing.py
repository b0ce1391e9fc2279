"""Leases that go from one client to another; each test names the law it serves."""

from __future__ import annotations

import pytest

from lockfast.errors import ConfigurationError, LeaseLost, NotOwner, OutcomeUnknown
from lockfast.testing._async.contract.subject import requires
from lockfast.testing._async.contract.trials import AsyncTrials


class AsyncLawsOfHandingOver(AsyncTrials):
    """Where the store keeps a lease by itself, and no session of the client's carries it."""

    @requires("hands_over")
    async def test_law_04_who_adopts_a_lease_has_it_with_its_token(self) -> None:
        """Here it is over, and there it is renewed and released as any other."""
        locks, others = self.locks(), self.locks()
        first = await locks.lock("door", ttl=self.long_ttl).acquire()

        second = await others.adopt(await first.detach())

        assert (second.name, second.token, second.ttl) == ("door", first.token, self.long_ttl)
        assert second.is_trusted
        assert not first.is_trusted
        with pytest.raises(NotOwner, match="handed over"):
            await first.release()
        with pytest.raises(NotOwner, match="handed over"):
            first.check()
        await second.renew()
        assert await locks.lock("door").try_acquire() is None
        await second.release()
        await self.assert_free("door", within=0.0)

    @requires("hands_over")
    async def test_law_13_leaving_the_block_of_a_lease_that_was_detached_frees_nothing(
        self,
    ) -> None:
        locks = self.locks()
        async with locks.lock("door", ttl=self.long_ttl) as lease:
            text = await lease.detach()

        adopted = await locks.adopt(text)

        assert adopted.is_trusted
        await adopted.release()

    @requires("hands_over")
    async def test_law_02_of_two_who_adopt_a_lease_the_first_has_it(self) -> None:
        """A text can be copied, and a lease cannot."""
        text = await (await self.locks().lock("door", ttl=self.long_ttl).acquire()).detach()
        adopted = await self.locks().adopt(text)

        with pytest.raises(LeaseLost):
            await self.locks().adopt(text)

        assert adopted.is_trusted
        await adopted.renew()
        await adopted.release()

    @requires("hands_over")
    async def test_law_02_a_lease_is_adopted_once_also_by_one_client(self) -> None:
        """A job that is delivered twice may meet the same worker."""
        locks = self.locks()
        text = await (await self.locks().lock("door", ttl=self.long_ttl).acquire()).detach()
        adopted = await locks.adopt(text)

        with pytest.raises(LeaseLost, match="adopted before"):
            await locks.adopt(text)

        await adopted.renew()
        await adopted.release()
        with pytest.raises(LeaseLost):
            await locks.adopt(text)

    @requires("hands_over")
    async def test_law_06_an_adoption_that_is_not_answered_may_be_repeated(self) -> None:
        locks, backend = self.faulty()
        text = await (await locks.lock("door", ttl=self.long_ttl).acquire()).detach()
        backend.lose_reply("hand_over")
        with pytest.raises(OutcomeUnknown):
            await locks.adopt(text)

        adopted = await locks.adopt(text)

        assert adopted.is_trusted
        await adopted.release()

    @requires("hands_over")
    async def test_law_09_a_lease_that_nobody_adopts_ends_by_its_ttl(self) -> None:
        """Not before, although its client has gone."""
        others = self.locks()
        await others.inspect("door")  # connected: that may take longer than the ttl

        async def leave(name: str, ttl: float) -> None:
            locks = self.locks()
            text = await (await locks.lock(name, ttl=ttl).acquire()).detach()
            await locks.aclose()

            assert await others.lock(name).try_acquire() is None
            await self.assert_free(name, within=ttl + self.late)
            with pytest.raises(LeaseLost):
                await others.adopt(text)

        await self.undisturbed(leave, ttl=self.ttl)

    @requires("hands_over")
    async def test_law_06_a_detach_that_is_not_answered_leaves_the_lease_ours(self) -> None:
        locks, backend = self.faulty()
        lease = await locks.lock("door", ttl=self.long_ttl).acquire()
        backend.lose_reply("hand_over")

        with pytest.raises(OutcomeUnknown):
            await lease.detach()

        assert lease.is_trusted
        await lease.renew()
        adopted = await self.locks().adopt(await lease.detach())
        await adopted.release()

    @requires("hands_over")
    async def test_law_13_a_lease_that_was_entered_twice_is_not_handed_over(self) -> None:
        """Whoever has the other handle would act upon what is somebody else's."""
        lock = self.locks().lock("door", ttl=self.long_ttl)
        outer, inner = await lock.acquire(), await lock.acquire()

        with pytest.raises(NotOwner, match="more than once"):
            await inner.detach()

        await inner.release()
        adopted = await self.locks().adopt(await outer.detach())
        await adopted.release()

    async def test_law_12_what_is_no_lease_is_not_adopted(self) -> None:
        with pytest.raises(ConfigurationError, match="not the text of a lease"):
            await self.locks().adopt("door")
