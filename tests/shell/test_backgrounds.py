"""A client's backgrounds survive what programs do to them, and notice when no owner is left."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from typing import Any

import pytest
from virtual import virtual

from lockfast import LeaseLost, Locks, LocksClosed, OutcomeUnknown
from lockfast.backends.memory._sync.backend import MemoryBackend
from lockfast.backends.memory.store import MemoryStore
from lockfast.runtime import aio
from lockfast.testing import (
    FaultyBackend,
    ManualClock,
    VirtualClock,
    run_in_virtual_time,
)
from lockfast_challenge.processes import eventually


def manual(clock: ManualClock, **options: Any) -> tuple[Locks, Any]:
    backend = FaultyBackend(MemoryBackend(clock=clock, store=MemoryStore(clock)), clock=clock)
    return Locks.from_backend(backend, clock=clock, **options), backend


# -- an owner that has ended ------------------------------------------------------------


def test_a_lease_of_a_task_that_has_ended_is_no_longer_renewed() -> None:
    """No other task can release the lease, because only the lock refers to it."""

    async def main() -> None:
        locks, backend = virtual(ttl=9.0)
        lock = locks.lock("door")

        async def forgets() -> None:
            await lock.acquire()

        await asyncio.create_task(forgets())
        gc.collect()

        with pytest.warns(ResourceWarning, match="the task that acquired it has ended"):
            await asyncio.sleep(4.0)
        await asyncio.sleep(10.0)

        assert backend.calls["renew"] == 0
        assert not await lock.locked()
        await locks.aclose()

    run_in_virtual_time(main())


def test_a_lease_of_a_thread_that_has_ended_is_no_longer_renewed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ManualClock()
    locks, backend = manual(clock, ttl=9.0)
    lock = locks.lock("door")
    owner = threading.Thread(target=lock.acquire)
    owner.start()
    owner.join()

    clock.advance(4.0)
    # Warnings are errors in the tests, but a background has no caller to raise them to.
    eventually(lambda: "the thread that acquired it has ended" in caplog.text)
    clock.advance(10.0)
    eventually(lambda: not lock.locked())

    assert backend.calls["renew"] == 0
    locks.close()


def test_a_lease_that_somebody_keeps_outlives_the_task_that_acquired_it() -> None:
    async def main() -> None:
        locks, _ = virtual(ttl=9.0)
        lease = await asyncio.create_task(locks.lock("door").acquire())

        await asyncio.sleep(30.0)

        assert lease.is_trusted
        await lease.release()
        await locks.aclose()

    run_in_virtual_time(main())


# -- hooks that exit --------------------------------------------------------------------


def test_a_hook_that_exits_keeps_no_other_lease_from_being_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """In a thread, `sys.exit` ends only that thread, which in this test watches all leases."""
    clock = ManualClock()
    locks, _ = manual(clock, ttl=9.0)
    told: list[str] = []

    def leave(lease: Any) -> None:
        told.append(lease.name)
        sys.exit(1)

    kept = [
        locks.lock(f"door {number}", on_lost=leave, max_hold=2.0).acquire() for number in range(3)
    ]
    other = locks.lock("gate").acquire()
    clock.advance(2.5)
    eventually(lambda: len(told) == len(kept))
    clock.advance(5.0)
    eventually(lambda: other.remaining > 8.0)

    assert "tried to exit in the background" in caplog.text
    locks.close()


# -- a program that cancels all its tasks -----------------------------------------------


def cancel_all_others() -> None:
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()


@pytest.mark.parametrize("after", [0.5, 3.0], ids=["between renewals", "during a renewal"])
def test_a_body_that_drains_is_renewed_although_all_tasks_were_cancelled(after: float) -> None:
    """A shutdown cancels all tasks that it finds; bodies finish their item under their lease."""

    async def main() -> None:
        locks, backend = virtual(ttl=9.0)
        backend.delay("renew", 0.5)
        drained: list[bool] = []

        async def work() -> None:
            async with locks.lock("door") as lease:
                try:
                    await asyncio.sleep(100.0)
                finally:
                    await asyncio.sleep(50.0)
                    drained.append(lease.is_trusted)

        worker = asyncio.create_task(work())
        await asyncio.sleep(after)
        cancel_all_others()
        await asyncio.wait([worker])

        assert drained == [True]
        assert not await locks.lock("door").locked()
        await locks.aclose()

    run_in_virtual_time(main())


def test_a_loop_that_ends_with_a_lease_held_ends_at_once_and_in_silence(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """`asyncio.run` cancels all tasks and waits for them, so no background may go on."""

    async def main() -> None:
        locks, _ = virtual(ttl=9.0)
        main.lock = locks.lock("door")  # type: ignore[attr-defined]
        main.lease = await main.lock.acquire()  # type: ignore[attr-defined]
        await asyncio.sleep(20.0)

    run_in_virtual_time(main())
    del main.lock, main.lease  # type: ignore[attr-defined]
    gc.collect()

    assert not caplog.records


def test_what_is_still_to_be_told_to_the_store_is_told_after_all_tasks_were_cancelled() -> None:
    async def main() -> None:
        locks, backend = virtual(ttl=60.0)
        lock = locks.lock("door")
        lease = await lock.acquire()
        backend.hang("release", times=2)
        with pytest.raises(OutcomeUnknown):
            await lease.release()
        await asyncio.sleep(0.1)

        cancel_all_others()
        await asyncio.sleep(10.0)

        assert not await lock.locked()
        await locks.aclose()

    run_in_virtual_time(main())


# -- an eager loop ----------------------------------------------------------------------


def test_nothing_that_is_spawned_runs_before_it_is_known() -> None:
    """The eager task factory of Python 3.12 may run a task to its end before returning the task."""

    async def main() -> None:
        steps: list[str] = []

        async def work() -> None:
            steps.append("worked")

        loop = asyncio.get_running_loop()
        loop.set_task_factory(_no_factory)
        task = aio.spawn(work, name="work")
        lookout = aio.spawn_taskless(work, name="lookout")
        loop.set_task_factory(None)
        assert not steps

        await task.join()
        await lookout.join()
        assert len(steps) == 2

    run_in_virtual_time(main())


def _no_factory(*_: Any, **__: Any) -> Any:
    raise AssertionError("made by the loop's factory")


# -- releases that cross a renewal or a cancellation ------------------------------------


def test_a_clean_release_is_not_told_as_lost_by_a_renewal_that_it_crossed() -> None:
    """The renewal's reply says that the lease is over, but only because the release ended it."""
    told: list[str] = []

    async def main() -> None:
        locks, backend = virtual(ttl=9.0, on_event=lambda event: told.append(type(event).__name__))
        lease = await locks.lock("door", on_lost=lambda _: told.append("on_lost")).acquire()
        release = backend.inner.release

        async def answered_late(*arguments: Any, **options: Any) -> Any:
            answer = await release(*arguments, **options)
            await asyncio.sleep(0.4)
            return answer

        backend.inner.release = answered_late
        backend.delay("renew", 0.2)
        await asyncio.sleep(3.05)
        assert backend.calls["renew"] == 1

        await lease.release()

        assert not lease.lost.is_set()
        await locks.aclose()

    run_in_virtual_time(main())
    assert told == ["Acquired", "Released"]


def test_a_cancelled_release_leaves_no_lease_in_its_lock() -> None:
    async def main() -> None:
        locks, backend = virtual(ttl=9.0)
        lock = locks.lock("door")
        backend.delay("release", 0.2)

        async def work() -> None:
            async with lock:
                pass

        task = asyncio.create_task(work())
        await asyncio.sleep(0.1)
        task.cancel()
        await asyncio.wait([task])

        assert task.cancelled()
        assert not lock._handles
        assert not locks._client.holds
        await locks.aclose()

    run_in_virtual_time(main())


# -- several names ----------------------------------------------------------------------


def test_waiting_for_a_further_name_ends_when_one_of_the_others_is_lost() -> None:
    async def main() -> None:
        clock = VirtualClock(asyncio.get_running_loop())  # type: ignore[arg-type]
        store = MemoryStore(clock)
        locks, _ = virtual(store, ttl=9.0)
        other, _ = virtual(store, ttl=600.0)
        held = await other.lock("gate").acquire()

        async def both() -> None:
            await locks.all("door", "gate").acquire()

        waiting = asyncio.create_task(both())
        await asyncio.sleep(0.1)
        await other.break_("door")
        await asyncio.wait([waiting], timeout=20.0)

        assert isinstance(waiting.exception(), LeaseLost)
        assert not (await other.inspect("gate")).line
        await held.release()
        await locks.aclose()
        await other.aclose()

    run_in_virtual_time(main())


# -- closing ----------------------------------------------------------------------------


def test_closing_waits_once_for_a_store_that_is_silent_in_the_middle_of_a_question() -> None:
    async def main() -> None:
        locks, backend = virtual(ttl=60.0, request_timeout=2.0)
        held = await locks.lock("gate").acquire()
        for verb in ("try_acquire", "withdraw", "release", "renew"):
            backend.hang(verb, times=99)
        asking = asyncio.create_task(locks.lock("door").acquire())
        await asyncio.sleep(0.5)
        started = asyncio.get_running_loop().time()

        await locks.aclose()

        assert asyncio.get_running_loop().time() - started < 2.0 + 0.5
        assert held.lost.reason == "closed"
        await asyncio.wait([asking])
        assert isinstance(asking.exception(), LocksClosed | OutcomeUnknown)

    run_in_virtual_time(main())
