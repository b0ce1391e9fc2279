"""Rare ways to end a lease: interrupted, unnoticed, or in the middle of another release."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import Any

import pytest
from virtual import virtual_clock

from lockfast import (
    AsyncLease,
    AsyncLocks,
    Claim,
    Grant,
    Held,
    LeaseLost,
    Locks,
    OutcomeUnknown,
)
from lockfast.backends.memory._async.backend import AsyncMemoryBackend
from lockfast.backends.memory._sync.backend import MemoryBackend
from lockfast.backends.memory.store import MemoryStore
from lockfast.client._async.acquisition import AsyncAcquisition, Refused
from lockfast.client._sync.client import Client
from lockfast.client._sync.hold import Hold
from lockfast.runtime import threads
from lockfast.testing import (
    AsyncFaultyBackend,
    FaultyBackend,
    run_in_virtual_time,
)
from lockfast_challenge.processes import eventually as wait_until


def test_an_interrupt_in_the_middle_of_a_release_does_not_keep_the_lock(
    monkeypatch: pytest.MonkeyPatch, eventually: Any
) -> None:
    """After Ctrl-C or a worker's time limit, the background releases; the caller may do so too."""
    release = MemoryBackend.release
    interrupts = [KeyboardInterrupt()]

    def interrupted(*arguments: Any, **options: Any) -> bool:
        if interrupts:
            raise interrupts.pop()
        return release(*arguments, **options)

    monkeypatch.setattr(MemoryBackend, "release", interrupted)
    with Locks("memory://interrupted") as locks:
        lease = locks.lock("door").acquire()
        with pytest.raises(KeyboardInterrupt):
            lease.release()

        eventually(lambda: not locks.lock("door").locked())
        lease.release()


@pytest.mark.parametrize("place", [(Hold, "is_trusted"), (MemoryBackend, "release")])
def test_a_release_that_is_repeated_beside_the_background_is_clean(
    monkeypatch: pytest.MonkeyPatch, place: tuple[type, str]
) -> None:
    """The background ends an interrupted release; if it is quicker, a repeat reports no loss."""
    with Locks("memory://repeated") as locks:
        lease = locks.lock("door").acquire()
        act = getattr(*place)
        quicker = [threading.Thread(target=locks._client.leave, args=(lease._handle,))]

        def after_the_background(*arguments: Any, **options: Any) -> object:
            if quicker and threading.current_thread() is threading.main_thread():
                quicker[0].start()
                quicker.pop().join(0.2)  # unless the background has to wait for this thread
                if place[1] == "release":
                    wait_until(lambda: locks._client.cleanup_queue.are_done)
            return act(*arguments, **options)

        monkeypatch.setattr(*place, after_the_background)

        lease.release()

        assert lease.lost.reason is None


def test_who_asks_while_another_thread_releases_gets_no_handle_on_what_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    end = Client.end
    begun, resume = threading.Event(), threading.Event()

    def slow(client: Client, hold: Any) -> None:
        begun.set()
        resume.wait(10)
        end(client, hold)

    with Locks("memory://ending") as locks:
        lock = locks.lock("door")
        lease = lock.acquire()
        monkeypatch.setattr(Client, "end", slow)
        other = threading.Thread(target=lease.release)
        other.start()
        begun.wait(10)

        again = lock.try_acquire()
        resume.set()
        other.join(10)

        assert again is None


def test_two_threads_that_release_at_once_both_release_cleanly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Releasing the last handle but one must not report a loss, because there was none."""
    with Locks("memory://both") as locks:
        lock = locks.lock("door")
        first, last = lock.acquire(), lock.acquire()
        watchdog = locks._client.watchdog
        others = [threading.Thread(target=last.release)]

        def release_the_last(_: float | None = None) -> None:
            if others:
                other = others.pop()
                other.start()
                other.join(10)

        monkeypatch.setattr(watchdog, "notice", release_the_last)
        first.release()

        assert not lock.locked()
        assert first.lost.reason is None


def test_an_end_that_is_noticed_while_the_release_is_under_way_is_not_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The watchdog may see the end during the release, but the release was sent in time."""
    release = MemoryBackend.release
    told: list[object] = []

    def noticed(*arguments: Any, **options: Any) -> bool:
        lease._hold.lose("expired")
        return release(*arguments, **options)

    with Locks("memory://noticed") as locks:
        lease = locks.lock("door", on_lost=told.append).acquire()
        monkeypatch.setattr(MemoryBackend, "release", noticed)
        lease.release()

        assert lease.lost.reason is None

    assert not told


def test_a_lease_that_ran_out_and_that_nobody_has_is_no_obstacle() -> None:
    """Nobody can release the lease any more, so its loss must not be reported for ever."""

    async def main() -> None:
        clock = virtual_clock()
        backend = AsyncMemoryBackend(clock=clock, store=MemoryStore(clock))
        async with AsyncLocks.from_backend(backend, clock=clock) as locks:
            for number in range(100):
                await locks.lock(f"door {number}", ttl=1.0, renew=False).acquire()
            await asyncio.sleep(2.0)
            gc.collect()

            assert not locks._client.holds
            assert (await locks.lock("door 0").acquire()).is_trusted

    run_in_virtual_time(main())


def test_who_asks_again_after_a_loss_is_told_of_it_once() -> None:
    """Nothing may be left that could release the lost lease, so the second acquire succeeds."""

    async def main() -> None:
        clock = virtual_clock()
        backend = AsyncMemoryBackend(clock=clock, store=MemoryStore(clock))
        async with AsyncLocks.from_backend(backend, clock=clock) as locks:
            lock = locks.lock("door", ttl=1.0, renew=False)
            first = await lock.acquire()
            await asyncio.sleep(2.0)

            with pytest.raises(LeaseLost):
                await lock.acquire()
            second = await lock.acquire()

            assert second.token > first.token
            with pytest.raises(LeaseLost):
                await first.release()
            assert second.is_trusted

    run_in_virtual_time(main())


def test_a_lease_that_is_lost_before_its_block_begins_lets_no_body_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The machine slept between the grant and the body; nothing would interrupt the body later."""

    async def main() -> None:
        clock = virtual_clock()
        backend = AsyncMemoryBackend(clock=clock, store=MemoryStore(clock))
        async with AsyncLocks.from_backend(backend, clock=clock) as locks:
            lock = locks.lock("door", ttl=1.0, renew=False)
            run = AsyncAcquisition.run

            async def slow(attempt: AsyncAcquisition) -> AsyncLease | Refused:
                lease = await run(attempt)
                await asyncio.sleep(2.0)
                return lease

            monkeypatch.setattr(AsyncAcquisition, "run", slow)
            with pytest.raises(LeaseLost):
                async with lock:
                    raise AssertionError

            monkeypatch.undo()
            assert (await lock.acquire()).is_trusted

    run_in_virtual_time(main())


@pytest.mark.parametrize("kind", ["not re-entrant", "a writer"])
def test_what_was_lost_is_no_deadlock(kind: str) -> None:
    """The lease is reported as lost, and then there is nothing to wait for."""

    async def main() -> None:
        clock = virtual_clock()
        backend = AsyncMemoryBackend(clock=clock, store=MemoryStore(clock))
        async with AsyncLocks.from_backend(backend, clock=clock) as locks:
            options: dict[str, Any] = {"ttl": 1.0, "renew": False}
            if kind == "a writer":
                rwlock = locks.rwlock("door", **options)
                lost, wanted = rwlock.read(), rwlock.write()
            else:
                lost = wanted = locks.lock("door", reentrant=False, **options)
            lease = await lost.acquire()
            await asyncio.sleep(2.0)

            with pytest.raises(LeaseLost):
                await wanted.acquire()
            assert (await wanted.acquire()).token > lease.token

    run_in_virtual_time(main())


def test_a_block_left_by_a_third_is_most_likely_of_one_who_has_ended() -> None:
    """A fixture runs its set-up in one task and its tear-down in another."""

    async def main() -> None:
        async with AsyncLocks("memory://") as locks:
            pool = locks.semaphore("pool", capacity=2)
            first = await asyncio.create_task(pool.__aenter__())
            inside, resume = asyncio.Event(), asyncio.Event()

            async def user() -> None:
                async with pool as lease:
                    inside.set()
                    await resume.wait()
                    lease.check()

            using = asyncio.create_task(user())
            await inside.wait()

            await asyncio.create_task(pool.__aexit__(None, None, None))

            assert not first.is_trusted
            resume.set()
            await using

    asyncio.run(main())


def test_a_cancelled_all_stays_cancelled_though_what_it_had_is_not_given_back() -> None:
    """The failure becomes a note on the cancellation; the background repeats the release."""

    async def main() -> None:
        clock = virtual_clock()
        store = MemoryStore(clock)
        backend = AsyncFaultyBackend(AsyncMemoryBackend(clock=clock, store=store), clock=clock)
        locks = AsyncLocks.from_backend(backend, clock=clock)
        other = AsyncLocks.from_backend(AsyncMemoryBackend(clock=clock, store=store), clock=clock)
        held = await other.lock("b").acquire()
        taking = asyncio.create_task(locks.all("a", "b").acquire())
        await asyncio.sleep(0.1)
        assert await other.lock("a").locked()
        backend.lose_request("release")

        taking.cancel()
        with pytest.raises(asyncio.CancelledError) as told:
            await taking

        assert any("lockfast" in note for note in told.value.__notes__)
        await asyncio.sleep(5.0)
        assert not await other.lock("a").locked()
        await held.release()
        await locks.aclose()
        await other.aclose()

    run_in_virtual_time(main())


def test_closing_waits_once_for_a_store_that_is_away() -> None:
    """One wait covers all leases, however many there are; and the backgrounds end all the same."""

    async def main() -> None:
        clock = virtual_clock()
        backend = AsyncFaultyBackend(
            AsyncMemoryBackend(clock=clock, store=MemoryStore(clock)), clock=clock
        )
        locks = AsyncLocks.from_backend(backend, clock=clock, request_timeout=1.0)
        leases = [await locks.lock(f"door {number}").acquire() for number in range(20)]
        backend.hang("release", times=99)
        backend.hang("disown", times=99)
        started = clock.now()

        await locks.aclose()

        assert clock.now() - started <= 1.2
        assert all(one.lost.reason == "closed" for one in leases)
        left = {one.get_name() for one in asyncio.all_tasks()}
        assert not {one for one in left if one.startswith("lockfast")}

    run_in_virtual_time(main())


def test_follow_ups_wait_for_a_thread_and_the_error_stays_the_stores(
    monkeypatch: pytest.MonkeyPatch, eventually: Any
) -> None:
    with Locks.from_backend(backend := FaultyBackend.around("memory://followups")) as locks:
        kept = locks.lock("kept", ttl=0.5).acquire()
        lease = locks.lock("door").acquire()
        spawn = threads.spawn

        def refuse(*arguments: Any, name: str) -> Any:
            if name == "lockfast-followups":
                raise RuntimeError("can't start new thread")
            return spawn(*arguments, name=name)

        monkeypatch.setattr(threads, "spawn", refuse)
        backend.lose_request("release")
        with pytest.raises(OutcomeUnknown):
            lease.release()
        monkeypatch.undo()

        eventually(lambda: not locks.lock("door").locked())
        kept.check()


class _BreaksTheFirst(AsyncMemoryBackend):
    """The first grant is broken by an operator, and its reply is lost."""

    asked = 0

    async def try_acquire(self, claim: Claim, *, deadline: float) -> Grant | Held:
        self.asked += 1
        answer = await super().try_acquire(claim, deadline=deadline)
        if self.asked == 1:
            await self.break_(claim.name, deadline=deadline)
            raise OutcomeUnknown("the answer was lost")
        return answer


def test_a_claim_broken_before_it_heard_of_its_grant_is_made_anew() -> None:
    """The tombstone of the broken claim would keep that claim out of an empty door."""

    async def main() -> None:
        clock = virtual_clock()
        backend = _BreaksTheFirst(clock=clock, store=MemoryStore(clock))
        async with AsyncLocks.from_backend(backend, clock=clock) as locks:
            lease = await locks.lock("door").acquire(timeout=1.0)

            assert lease.is_trusted
            assert backend.asked == 3

    run_in_virtual_time(main())
