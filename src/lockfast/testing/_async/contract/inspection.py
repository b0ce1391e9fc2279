"""What observers learn about a name, which is the same on every store; each test names its law."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from lockfast.errors import AcquireTimeout, LeaseLost
from lockfast.events import SafeAgain
from lockfast.testing import aio as runner
from lockfast.testing._async.contract.subject import AsyncTrials, Recorder, requires


class AsyncLawsOfInspection(AsyncTrials):
    """The laws from the viewpoint of observers: operators and waiters."""

    # -- Law 2: never more inside than fit ---------------------------------------------

    async def test_law_02_locked_says_whether_an_acquire_would_have_to_wait(self) -> None:
        """`locked` is true only while someone holds the name."""
        lock, other = self.locks().lock("gate"), self.locks().lock("gate")
        assert not await other.locked()

        async with lock:
            assert await other.locked()
            assert await lock.locked()

        assert not await other.locked()

    @requires("shared")
    async def test_law_02_a_semaphore_is_locked_when_its_permits_do_not_fit(self) -> None:
        """A semaphore is not locked as long as the requested permits are free, as in asyncio."""
        locks = self.locks()
        one = locks.semaphore("seats", capacity=3)
        two = locks.semaphore("seats", capacity=3, permits=2)

        first = await one.acquire()
        assert not await one.locked()
        assert not await two.locked()
        second = await one.acquire()
        assert not await one.locked()
        assert await two.locked()
        third = await one.acquire()
        assert await one.locked()

        for lease in (first, second, third):
            await lease.release()
        assert not await two.locked()

    @requires("shared")
    async def test_law_02_a_name_with_a_waiter_is_locked_for_newcomers(self) -> None:
        """A name with a waiter is locked for newcomers, even if a permit is free."""
        locks, other = self.locks(), self.locks()
        lease = await locks.semaphore("seats", capacity=2).acquire()
        waiting = runner.start(other.semaphore("seats", capacity=2, permits=2).acquire)
        await self.until_waiting(locks, "seats")

        assert await locks.semaphore("seats", capacity=2).locked()

        await lease.release()
        await (await waiting.result()).release()

    @requires("shared")
    async def test_law_02_readers_are_locked_out_by_a_writer_and_writers_by_anyone(self) -> None:
        """A reader need not wait for other readers, but a writer must wait for any holder."""
        holder, other = self.locks().rwlock("config"), self.locks().rwlock("config")

        async with holder.read():
            assert not await other.read().locked()
            assert await other.write().locked()
        async with holder.write():
            assert await other.read().locked()
            assert await other.write().locked()
        assert not await other.write().locked()

    @requires("shared")
    async def test_law_02_every_holder_is_named(self) -> None:
        """An inspection names all holders, no matter how many there are."""
        pool = self.locks().semaphore("crowd", capacity=40)
        leases = [await pool.acquire() for _ in range(40)]

        seen = await self.locks().inspect("crowd")

        assert [one.token for one in seen.holders] == sorted(one.token for one in leases)
        assert await pool.locked()
        for lease in leases:
            await lease.release()
        assert not (await self.locks().inspect("crowd")).is_in_use

    # -- Law 4: nobody ends another's lease by mistake ------------------------------------

    @requires("has_tokens")
    async def test_law_04_a_break_by_token_ends_that_lease(self) -> None:
        """A break by token ends that lease, and returns its owner."""
        lease = await self.locks(label="stuck").lock("ticket").acquire()

        broken = await self.locks().break_("ticket", token=lease.token)

        assert [(one.owner.label, one.token) for one in broken] == [("stuck", lease.token)]
        assert not (await self.locks().inspect("ticket")).holders

    @requires("has_tokens")
    async def test_law_04_a_slow_operator_does_not_break_the_successor(self) -> None:
        """A break with the token of a lease that has ended does nothing to the next holder."""
        locks, other = self.locks(), self.locks()
        old = await locks.lock("counter").acquire()
        await old.release()
        successor = await locks.lock("counter").acquire()

        assert await other.break_("counter", token=old.token) == ()

        await successor.renew()
        assert [one.token for one in (await other.inspect("counter")).holders] == [successor.token]

    @requires("shared")
    async def test_law_04_a_break_by_token_leaves_the_other_permits_alone(self) -> None:
        """If a semaphore has several holders, a break by token ends the lease of only one."""
        locks = self.locks()
        seats = locks.semaphore("stalls", capacity=3)
        first, second = await seats.acquire(), await seats.acquire()

        broken = await self.locks().break_("stalls", token=first.token)

        assert [one.token for one in broken] == [first.token]
        await second.renew()
        assert [one.token for one in (await locks.inspect("stalls")).holders] == [second.token]

    @requires("explicit_owner")
    async def test_law_04_a_break_by_owner_ends_all_that_this_owner_holds(self) -> None:
        """A break by owner ends the leases of all processes of that owner, and no other lease."""
        locks, other = self.locks(), self.locks()
        saga = [await one.lock("saga", owner="saga-42").acquire() for one in (locks, other)]
        assert await other.break_("saga", owner="saga-41") == ()
        assert all(one.is_trusted for one in saga)

        broken = await other.break_("saga", owner="saga-42")

        assert [one.token for one in broken] == [saga[0].token] * 2
        successor = await locks.lock("saga", owner="saga-43").acquire(timeout=0)
        assert await other.break_("saga", owner="saga-42") == ()
        await successor.renew()

    # -- Law 7: the holder is notified of loss -----------------------------------------------

    async def test_law_07_a_break_by_its_own_client_is_reported_at_once(self) -> None:
        """A client that breaks its own lease is notified at once, without waiting for a renewal."""
        reported: list[Any] = []
        locks = self.locks()
        mine = await locks.lock("gate", on_lost=reported.append).acquire()
        other = await locks.lock("fence").acquire()

        await locks.break_("gate")

        assert not mine.is_trusted
        assert mine.lost.reason == "broken"
        await self.until(lambda: reported == [mine])
        assert other.is_trusted
        with pytest.raises(LeaseLost):
            await mine.release()

    async def test_law_07_a_release_that_came_too_late_says_that_the_lease_expired(self) -> None:
        """A release that was sent in time but executed late reports that the lease expired.

        In a store with sessions, the lease lasts as long as its session, so the release is clean.
        """
        is_carried = self.capabilities.ends_by == "session"

        async def release_late(name: str, ttl: float) -> None:
            locks, backend = self.faulty(ttl=ttl, request_timeout=30.0)
            lease = await locks.lock(name).acquire()
            backend.delay("release", 1.5 * ttl + self.late)

            with suppress(LeaseLost):
                await lease.release()

            assert lease.lost.reason == (None if is_carried else "expired")

        await self.undisturbed(release_late, ttl=self.ttl)

    async def test_law_07_a_lease_at_risk_that_recovers_is_kept_and_reported_safe(self) -> None:
        """An unanswered renewal puts the lease at risk, and an answered one makes it safe."""

        async def recover(name: str, ttl: float) -> None:
            recorder = Recorder()
            locks, backend = self.faulty(on_event=recorder, ttl=ttl)
            lease = await locks.lock(name).acquire()
            backend.lose_request("renew")

            await self.until(lambda: "SafeAgain" in recorder.kinds())

            assert not lease.is_at_risk
            lease.check()
            reported = [one for one in recorder.kinds() if one != "Renewed"]
            assert reported == ["Acquired", "AtRisk", "SafeAgain"]
            [safe] = [one for one in recorder.events if isinstance(one, SafeAgain)]
            assert 0 < safe.remaining <= lease.ttl
            await lease.release()

        await self.undisturbed(recover, ttl=10 * self.ttl)

    async def test_law_07_a_broken_holder_is_notified_whatever_its_min_hold(self) -> None:
        """After a break, the holder's release reports the break, and min_hold no longer applies."""
        lease = await self.locks().lock("gate", min_hold=20.0).acquire()
        await self.locks().break_("gate")

        with pytest.raises(LeaseLost) as caught:
            await lease.release()

        assert caught.value.reason == "broken"
        assert not (await self.locks().inspect("gate")).is_in_use

    # -- Law 10: the line -----------------------------------------------------------------

    @requires("fair")
    async def test_law_10_inspection_shows_how_long_a_waiter_has_waited(self) -> None:
        """An inspection shows an operator for how long each client in line has waited."""
        holder = self.locks()
        lease = await holder.lock("queue").acquire()
        began = self.clock.now()
        first = runner.start(self.locks().lock("queue").acquire)
        await self.until_waiting(holder, "queue", 1)
        seen_at = self.clock.now()
        await self.pass_time(0.3)
        second = runner.start(self.locks().lock("queue").acquire)
        await self.until_waiting(holder, "queue", 2)

        asked_at = self.clock.now()
        line = (await holder.inspect("queue")).line

        assert [one.place for one in line] == [1, 2]
        assert asked_at - seen_at - 0.05 <= line[0].age <= self.clock.now() - began + 0.05
        assert 0.0 <= line[1].age <= line[0].age - 0.25
        await lease.release()
        for one in (first, second):
            await (await one.result()).release()

    # -- Law 11: errors that can be acted on -------------------------------------------

    async def test_law_11_a_label_cannot_forge_a_line_of_a_log(self) -> None:
        """A label from another program is escaped for display, but stored unchanged."""
        label = "x)\n2026-11-16 CRITICAL refund approved \x1b[31m"
        lease = await self.locks(label=label).lock("door").acquire()
        other = self.locks()

        with pytest.raises(AcquireTimeout) as caught:
            await other.lock("door").acquire(timeout=0)

        [holder] = (await other.inspect("door")).holders
        assert holder.owner.label == label
        assert str(caught.value).isprintable()
        assert str(holder.owner).isprintable()
        assert lease.owner.isprintable()

    # -- Law 15: limits of holding --------------------------------------------------------

    async def test_law_15_a_name_closed_by_min_hold_is_reported_as_closed(self) -> None:
        """After the release, min_hold keeps the name closed, and every store reports this alike."""
        lease = await self.locks(label="nightly").lock("job", min_hold=20.0).acquire()
        other = self.locks()
        await lease.release()

        await self._assert_closed(other, "job", after="nightly", at_most=20.0)

    @requires("lock_delay")
    async def test_law_15_a_name_closed_by_lock_delay_is_reported_as_closed(self) -> None:
        """The name is reported as closed after a break, and after a holder fell silent."""
        other = self.locks()
        await self.locks(label="broken").lock("job", lock_delay=20.0).acquire()
        await other.break_("job")
        await self._assert_closed(other, "job", after="broken", at_most=20.0)

        silent = self.locks(label="silent", ttl=self.ttl)
        await silent.lock("task", lock_delay=20.0, renew=False).acquire()
        await self.pass_ttl()
        await self._assert_closed(other, "task", after="silent", at_most=20.0)

    async def _assert_closed(self, locks: Any, name: str, *, after: str, at_most: float) -> None:
        seen = await locks.inspect(name)
        [surveyed] = [one async for one in locks.survey() if one.name == name]
        is_locked = await locks.lock(name).locked()
        with pytest.raises(AcquireTimeout, match=r"closed for [\d.]+ s more after") as caught:
            await locks.lock(name).acquire(timeout=0)

        assert is_locked
        for reported in (seen, surveyed, caught.value):
            assert reported.holders == ()
            [closing] = reported.closing
            assert closing.owner.label == after
            assert 0.0 < closing.remaining <= at_most + 1.0  # a server's clock may differ
        assert 0.0 < seen.closed_for <= at_most + 1.0
        assert await locks.break_(name) == ()  # nothing to end, as the name has no lease
