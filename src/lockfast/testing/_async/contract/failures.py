"""Laws 6 and 8 to 11: what remains in the store when something fails."""

from __future__ import annotations

import asyncio  # async only
from typing import Any

import pytest

from lockfast.core.door import ADMISSION_WINDOW_SECONDS
from lockfast.errors import (
    AcquireTimeout,
    BackendError,
    BackendUnavailable,
    LeaseLost,
    LockError,
    NotAcquired,
    NotOwner,
    OutcomeUnknown,
)
from lockfast.model import Grant
from lockfast.testing import aio as runner
from lockfast.testing._async.contract.subject import AsyncTrials, requires


class AsyncLawsOfFailure(AsyncTrials):
    """The laws about failures."""

    # -- Law 6: a failed acquire leaves nothing behind -----------------------------------

    async def test_law_06_a_timeout_leaves_nothing_behind(self) -> None:
        """A waiter that has timed out is no longer in line."""
        holder = self.locks()
        lease = await holder.lock("door", ttl=self.long_ttl).acquire()

        with pytest.raises(AcquireTimeout) as caught:
            await self.locks().lock("door").acquire(timeout=0.05)

        assert caught.value.waited >= 0.049
        assert (await holder.inspect("door")).line == ()
        await lease.release()
        await self.assert_free("door", within=0.0)

    # async only: begin
    async def test_law_06_a_cancelled_acquire_leaves_nothing_behind(self) -> None:
        """A waiter that is cancelled leaves nothing behind, at whatever point of its wait."""
        holder = self.locks()
        lease = await holder.lock("door", ttl=self.long_ttl).acquire()
        locks, backend = self.faulty()
        waiter = runner.start(locks.lock("door").acquire)
        await self.until(lambda: backend.delivered["try_acquire"])

        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter.result()

        assert (await holder.inspect("door")).line == ()
        await lease.release()

    async def test_law_06_a_release_is_shielded_from_cancellation(self) -> None:
        """If the body is cancelled, the lock is released before the cancellation is raised."""
        locks, backend = self.faulty()
        backend.delay("release", 0.1)
        entered = []

        async def body() -> None:
            async with locks.lock("door", ttl=self.long_ttl):
                entered.append(True)
                await asyncio.sleep(0.001)

        running = runner.start(body)
        await self.until(lambda: backend.calls["release"])
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running.result()

        await self.assert_free("door", within=0.0)

    # async only: end

    async def test_law_06_a_request_is_repeated_after_a_lost_reply(self) -> None:
        """A lost reply costs one more round trip, but causes no error."""
        locks, backend = self.faulty()
        backend.lose_reply("try_acquire")

        lease = await locks.lock("door").acquire()

        assert lease.is_trusted
        assert backend.calls["try_acquire"] == 2
        await lease.release()
        await self.assert_free("door", within=0.0)

    async def test_law_06_lost_replies_leave_nothing_behind(self) -> None:
        """If the store granted a claim but the replies were lost, the claim is withdrawn."""
        locks, backend = self.faulty()
        backend.lose_reply("try_acquire", times=2)

        with pytest.raises(LockError):
            await locks.lock("door", ttl=self.long_ttl).acquire(timeout=5)

        await self.assert_free("door", within=0.0)

    async def test_law_06_the_withdrawal_goes_on_in_the_background(self) -> None:
        """A withdrawal that the store does not answer is repeated in the background."""
        locks, backend = self.faulty()
        backend.lose_reply("try_acquire", times=2)
        backend.lose_request("withdraw", times=2)

        with pytest.raises(LockError):
            await locks.lock("door", ttl=self.long_ttl).acquire(timeout=5)

        await self.assert_free("door")

    async def test_law_06_a_request_that_arrives_late_gets_nothing(self) -> None:
        """A request that arrives after the withdrawal of its claim must not be granted."""
        locks, backend = self.faulty()
        backend.deliver_late("try_acquire", times=2)
        with pytest.raises(LockError):
            await locks.lock("door", ttl=self.long_ttl).acquire(timeout=5)

        await backend.deliver()

        await self.assert_free("door", within=0.0)
        assert await self.locks().lock("door").try_acquire() is not None

    async def test_law_06_a_late_repeat_after_the_release_gets_nothing(self) -> None:
        """A request that arrives after the release of its claim must not be granted."""
        locks, backend = self.faulty()
        backend.deliver_late("try_acquire")
        lease = await locks.lock("door", ttl=self.long_ttl).acquire()
        await lease.release()

        await backend.deliver()

        await self.assert_free("door", within=0.0)

    async def test_law_06_a_failed_release_can_be_tried_again(self) -> None:
        """A lease stays ours until the store has answered its release."""
        locks, backend = self.faulty()
        lease = await locks.lock("door", ttl=self.long_ttl).acquire()
        backend.go_away()
        with pytest.raises(BackendUnavailable):
            await lease.release()

        backend.come_back()
        await lease.release()

        await self.assert_free("door", within=0.0)
        with pytest.raises(NotOwner):
            await lease.release()

    async def test_law_06_a_release_whose_reply_was_lost_is_clean(self) -> None:
        """If only the reply to a release was lost, repeating the release is not an error."""
        locks, backend = self.faulty()
        lease = await locks.lock("door", ttl=self.long_ttl).acquire()
        backend.lose_reply("release")
        with pytest.raises(OutcomeUnknown):
            await lease.release()

        await lease.release()

        await self.assert_free("door", within=0.0)

    async def test_law_06_a_lease_whose_release_was_not_answered_is_not_trusted(self) -> None:
        """After an unanswered release, someone else may hold the name, so the lease is over."""
        locks, backend = self.faulty()
        lease = await locks.lock("door").acquire()
        backend.lose_request("release")
        with pytest.raises(OutcomeUnknown):
            await lease.release()

        assert not lease.is_trusted
        assert lease.remaining == 0.0
        with pytest.raises(NotOwner):
            lease.check()
        await self.assert_free("door")

    async def test_law_06_a_failed_release_by_the_lock_can_be_tried_again(self) -> None:
        """A failed release through the lock can be repeated, just like a release of the lease."""
        locks, backend = self.faulty()
        lock = locks.lock("door")
        await lock.acquire()
        backend.lose_request("release")
        with pytest.raises(OutcomeUnknown):
            await lock.release()

        await lock.release()

        await self.assert_free("door", within=0.0)

    # -- Law 8: acquire ends in time ---------------------------------------------------------

    async def test_law_08_a_timeout_is_kept_by_a_waiter(self) -> None:
        """A waiter times out when its timeout ends, however long the holder keeps the lock."""

        async def wait(name: str, _: float) -> None:
            held = await self.locks().lock(name, ttl=self.long_ttl).acquire()
            started = self.clock.now()

            with pytest.raises(AcquireTimeout):
                await self.locks().lock(name).acquire(timeout=0.2)

            assert 0.199 <= self.clock.now() - started <= 0.2 + self.slack
            assert held.is_trusted

        await self.undisturbed(wait, ttl=self.ttl, tolerance=self.slack / 4)

    async def test_law_08_a_timeout_is_kept_when_the_store_hangs(self) -> None:
        """An acquire, with its withdrawal, ends within its timeout plus one request timeout."""

        async def wait(name: str, _: float) -> None:
            locks, backend = self.faulty(request_timeout=0.4)
            backend.hang("try_acquire", times=9)
            backend.hang("withdraw", times=9)
            started = self.clock.now()

            with pytest.raises(LockError):
                await locks.lock(name).acquire(timeout=0.2)

            assert self.clock.now() - started <= 0.2 + 0.4 + self.slack
            backend.come_back()

        await self.undisturbed(wait, ttl=self.ttl, tolerance=self.slack / 4)

    # -- Law 9: a crash frees the name ---------------------------------------------------------

    async def test_law_09_a_crashed_holder_frees_the_name_within_its_ttl(self) -> None:
        """Soon after a crashed holder's ttl, the next claim is granted, even without a wakeup."""

        async def crash(name: str, _: float) -> None:
            backend = self.raw()
            grant = await backend.try_acquire(self.claim(name), deadline=self.soon())
            assert isinstance(grant, Grant)
            await self.crash(backend)
            started = self.clock.now()

            patience = self.ttl + self.late + 2 * self.slack
            lease = await self.locks().lock(name).acquire(timeout=patience)

            assert not self.capabilities.has_tokens or lease.token > (grant.token or 0)
            assert self.clock.now() - started <= self.ttl + self.late + self.slack

        await self.undisturbed(crash, ttl=self.ttl, tolerance=self.slack / 4)

    # -- Law 10: dead waiters do not stall the line ----------------------------------------------

    @requires("fair")
    async def test_law_10_dead_waiters_cost_one_window_together(self) -> None:
        """Five dead waiters, all of one client, delay the live waiter behind them by one window."""
        # Long enough to outlast the crash, and no longer in a store with sessions, where dead
        # waiters end only with this ttl.
        long = self.long_ttl if self.capabilities.ends_by == "ttl" else 2 * self.ttl

        async def die_in_line(name: str, _: float) -> None:
            locks, backend = self.locks(), self.raw()
            lease = await locks.lock(name, ttl=self.long_ttl).acquire()
            for _number in range(5):
                dead = self.claim(name, client="dead", ttl=long)
                await backend.try_acquire(dead, deadline=self.soon())
            living = runner.start(self.locks().lock(name).acquire)
            await self.until_waiting(locks, name, 6)
            await self.crash(backend)
            started = self.clock.now()

            await lease.release()
            await living.result()

            assert self.clock.now() - started <= ADMISSION_WINDOW_SECONDS + self.slack

        await self.undisturbed(die_in_line, ttl=self.ttl, tolerance=self.slack / 4)

    # -- Law 11: four different errors ------------------------------------------------------------

    async def test_law_11_contention_loss_ignorance_and_outage_are_told_apart(self) -> None:
        """Contention, loss, unknown outcome and outage raise errors of four different branches."""
        locks, backend = self.faulty(ttl=self.ttl)
        seen: list[type[BaseException]] = []

        async def note(action: Any) -> None:
            with pytest.raises(LockError) as caught:
                await action()
            seen.append(caught.type)

        taken = await self.locks().lock("taken", ttl=self.long_ttl).acquire()
        await note(lambda: locks.lock("taken").acquire(timeout=0))
        await taken.release()
        lost = await locks.lock("lost", renew=False).acquire()
        await self.pass_ttl()
        await note(lost.release)
        backend.lose_reply("try_acquire", times=2)
        # Lose every withdrawal that may be under way. The background may be withdrawing the lost
        # lease at this moment.
        backend.lose_request("withdraw", times=9)
        await note(lambda: locks.lock("unknown").acquire(timeout=self.patience))
        backend.go_away()
        await note(lambda: locks.lock("away").acquire(timeout=5))
        backend.come_back()

        branches = (NotAcquired, LeaseLost, OutcomeUnknown, BackendError)
        assert [[issubclass(one, branch) for branch in branches] for one in seen] == [
            [row == column for column in range(4)] for row in range(4)
        ]
