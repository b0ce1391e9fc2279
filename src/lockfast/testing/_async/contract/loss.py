"""Law 7: the holder is notified of a loss."""

from __future__ import annotations

import asyncio  # async only
from typing import Any

import pytest

from lockfast.errors import LeaseLost
from lockfast.testing import aio as runner
from lockfast.testing._async.contract.subject import AsyncTrials, Recorder


class AsyncLawsOfLoss(AsyncTrials):
    """The law about losing a lease, and about keeping a lease until then."""

    async def test_law_07_the_holder_is_notified_at_its_own_deadline(self) -> None:
        """If the store does not answer, the lease is at risk, and then lost, by the local clock."""

        async def lose_the_store(name: str, ttl: float) -> None:
            recorder = Recorder()
            locks, backend = self.faulty(on_event=recorder, ttl=ttl)
            lease = await locks.lock(name).acquire()
            started = self.clock.now()
            backend.go_away()

            assert await lease.lost.wait(ttl + self.slack)

            assert self.clock.now() - started <= ttl + self.slack
            assert lease.lost.reason == "expired"
            await self.until(lambda: "Lost" in recorder.kinds())
            assert recorder.kinds()[-2:] == ["AtRisk", "Lost"]
            with pytest.raises(LeaseLost):
                lease.check()
            backend.come_back()

        await self.undisturbed(lose_the_store, ttl=4 * self.ttl)

    async def test_law_07_leaving_the_block_raises(self) -> None:
        """If a body ends after the loss of its lease, LeaseLost is raised, even without a check."""
        with pytest.raises(LeaseLost) as caught:
            async with await self.locks(ttl=self.ttl).lock("door", renew=False).acquire():
                await self.pass_ttl()

        assert caught.value.reason == "expired"

    async def test_law_07_the_bodys_own_exception_wins(self) -> None:
        """If the body raises an error, the error is passed on, with a note about the loss."""
        with pytest.raises(KeyError) as caught:  # noqa: PT012 - the block is the subject
            lock = self.locks(ttl=self.ttl).lock("door", renew=False)
            async with await lock.acquire() as lease:
                try:
                    await self.pass_ttl()
                finally:
                    assert not lease.is_trusted
                    raise KeyError("mine")

        assert any("lost" in note for note in caught.value.__notes__)

    async def test_law_07_a_broken_holder_is_notified_at_its_next_renewal(self) -> None:
        """An operator's break reaches the holder within a third of the ttl."""
        operator = self.locks()
        await operator.inspect("door")  # connect first, which may take longer than the ttl

        async def be_broken(name: str, ttl: float) -> None:
            reported: list[Any] = []
            lease = await self.locks(ttl=ttl).lock(name, on_lost=reported.append).acquire()

            broken = await operator.break_(name)

            assert len(broken) == 1
            assert await lease.lost.wait(ttl + self.slack)
            assert lease.lost.reason == "broken"
            await self.until(lambda: reported == [lease])

        await self.undisturbed(be_broken, ttl=2 * self.ttl)

    async def test_law_07_a_broken_holder_that_releases_learns_of_the_break(self) -> None:
        """A release after a break reports the break and not an expiry, even without a renewal."""
        lease = await self.locks().lock("door").acquire()
        await self.locks().break_("door")

        with pytest.raises(LeaseLost) as reported:
            await lease.release()

        assert reported.value.reason == lease.lost.reason == "broken"

    async def test_law_07_a_lease_is_renewed_while_its_holder_lives(self) -> None:
        """As long as its holder lives, a lease is renewed, and outlasts several ttls."""
        other = self.locks()
        await other.inspect("door")  # connect first, which may take longer than the ttl

        async def live_on(name: str, ttl: float) -> None:
            recorder = Recorder()
            locks = self.locks(on_event=recorder, ttl=ttl)
            async with locks.lock(name) as lease:
                await self.pass_time(ttl * 1.5)
                # On a slow machine, renewals are later and fewer, which is fine.
                await self.until(lambda: recorder.kinds().count("Renewed") >= 3)
                assert lease.is_trusted
                # Allow a short time, because the machine may have stalled just before this check.
                await self.until(lambda: not lease.is_at_risk, within=ttl / 6)
                assert await other.lock(name).try_acquire() is None

            await self.until(lambda: "Released" in recorder.kinds())
            assert "Lost" not in recorder.kinds()

        await self.undisturbed(live_on, ttl=3 * self.ttl)

    # async only: begin
    async def test_law_07_the_body_of_a_lost_lease_is_cancelled(self) -> None:
        """In asyncio, the loss of the lease cancels the body, and then LeaseLost is raised."""
        locks, backend = self.faulty(ttl=self.ttl)
        reached = []

        with pytest.raises(LeaseLost):  # noqa: PT012 - the block is the subject
            async with locks.lock("door"):
                backend.go_away()
                await asyncio.sleep(self.ttl * 20)
                reached.append(True)

        backend.come_back()
        task = asyncio.current_task()
        assert task is not None
        assert not reached
        assert task.cancelling() == 0

    async def test_law_07_a_foreign_cancellation_stays_one(self) -> None:
        """If the task is cancelled for another reason, CancelledError is raised, not LeaseLost."""
        locks = self.locks()
        inside = []

        async def body() -> None:
            async with locks.lock("door"):
                inside.append(True)
                await asyncio.sleep(1000)

        running = runner.start(body)
        await self.until(lambda: inside)
        running.cancel()

        with pytest.raises(asyncio.CancelledError):
            await running.result()
        await self.assert_free("door", within=0.0)

    # async only: end
