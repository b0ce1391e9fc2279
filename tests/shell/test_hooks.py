"""Hooks run beside the work: a slow hook costs no lease, and close delivers pending events."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from both_flavours import FLAVOURS, Flavour
from virtual import virtual

from lockfast import AsyncLocks, ConfigurationError, Event, Lease, LeaseLost, Locks
from lockfast.client._sync import dispatch
from lockfast.testing import run_in_virtual_time
from lockfast_challenge.processes import eventually

PATIENCE = 60.0


@pytest.fixture(params=FLAVOURS)
def flavour(request):
    flavour = Flavour(request.param)
    yield flavour
    flavour.close()


def kinds(events: list[Event]) -> list[str]:
    return [type(one).__name__ for one in events]


# -- a slow hook --------------------------------------------------------------------------


def test_a_hundred_leases_outlive_a_hook_that_sleeps() -> None:
    """The hook sleeps for five times the ttl of the leases, in its own thread and in no other."""
    told: list[Event] = []
    sleeping = threading.Event()

    def sleep(event: Event) -> None:
        told.append(event)
        sleeping.set()
        time.sleep(5.0)

    with Locks("memory://", ttl=1.0, on_event=sleep, request_timeout=0.5) as locks:
        leases = [locks.lock(f"door {number}").acquire() for number in range(100)]
        assert sleeping.wait(PATIENCE)
        renewed_at = [lease._hold.until for lease in leases]
        eventually(
            lambda: all(one._hold.until > renewed_at[n] + 2.0 for n, one in enumerate(leases))
        )

        assert not any(lease.lost.is_set() for lease in leases)
        assert len(told) <= 2
        for lease in leases:
            lease.release()


def test_a_hundred_leases_outlive_a_hook_that_awaits() -> None:
    """In asyncio a hook may be an `async def`, and is awaited in a task of its own."""
    told: list[Event] = []

    async def sleep(event: Event) -> None:
        told.append(event)
        async with asyncio.timeout(10.0):  # which needs a task
            await asyncio.sleep(5.0)

    async def main() -> None:
        locks, _ = virtual(ttl=1.0, on_event=sleep)
        leases = [await locks.lock(f"door {number}").acquire() for number in range(100)]
        await asyncio.sleep(12.0)

        assert kinds(told) == ["Acquired"] * 3
        assert not any(lease.lost.is_set() for lease in leases)
        await locks.aclose()

    run_in_virtual_time(main())


def test_on_lost_is_called_beside_the_work_too() -> None:
    """A hook that does not return from the first loss costs the other leases nothing."""
    may_go_on = threading.Event()
    told: list[Lease] = []

    def wait(lease: Lease) -> None:
        told.append(lease)
        may_go_on.wait(PATIENCE)

    with Locks("memory://", ttl=0.6) as locks:
        lost = [locks.lock(n, on_lost=wait, max_hold=0.1).acquire() for n in ("one", "two")]
        kept = locks.lock("kept").acquire()
        eventually(lambda: len(told) == 1)
        until = kept._hold.until
        eventually(lambda: kept._hold.until > until + 1.0)
        assert all(lease.lost.reason == "max_hold" for lease in lost)
        may_go_on.set()
        eventually(lambda: set(told) == set(lost))


# -- what is delivered, and when ----------------------------------------------------------


def test_a_loss_that_a_thread_beside_the_loop_notices_first_is_told_in_the_loop() -> None:
    """`check()` in another thread notices the loss, without I/O, while the loop is busy."""
    told: list[int] = []

    async def main() -> None:
        here = threading.get_ident()
        async with AsyncLocks("memory://") as locks:
            lock = locks.lock("door", on_lost=lambda _: told.append(threading.get_ident()))
            lease = await lock.acquire()
            lease._hold.until = 0.0  # as if the loop had been busy for longer than the ttl
            thread = ThreadPoolExecutor(1)
            with thread, pytest.raises(LeaseLost):
                thread.submit(lease.check).result(PATIENCE)
        assert told == [here]

    asyncio.run(main())


def test_every_hook_hears_everything_in_order_and_a_slow_one_delays_only_itself() -> None:
    may_go_on = threading.Event()
    slow: list[Event] = []
    quick: list[Event] = []

    def wait(event: Event) -> None:
        may_go_on.wait(PATIENCE)
        slow.append(event)

    with Locks("memory://", on_event=[wait, quick.append]) as locks:
        for name in ("a", "b", "c"):
            with locks.lock(name):
                pass
        eventually(lambda: len(quick) == 6)
        assert not slow
        may_go_on.set()

    assert [(one.name, type(one).__name__) for one in quick] == [
        (name, kind) for name in "abc" for kind in ("Acquired", "Released")
    ]
    assert slow == quick


def test_close_delivers_what_waits_before_it_returns(flavour) -> None:
    told: list[Event] = []
    before = set(threading.enumerate())  # another test's hook may still sleep
    locks = flavour.locks("memory://", on_event=told.append)
    leases = [locks.lock(f"door {number}").acquire() for number in range(50)]
    for lease in leases[:40]:
        lease.release()

    (locks.close if flavour.name == "sync" else locks.aclose)()

    assert kinds(told) == ["Acquired"] * 50 + ["Released"] * 40 + ["Lost"] * 10
    assert not [one for one in set(threading.enumerate()) - before if "lockfast" in one.name]


def test_close_waits_no_longer_for_a_hook_than_for_a_request(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The log says how many events the hook missed; the thread ends when the hook returns."""
    may_go_on = threading.Event()
    told: list[Event] = []
    before = set(threading.enumerate())

    def wait(event: Event) -> None:
        told.append(event)
        may_go_on.wait(PATIENCE)

    locks = Locks("memory://", on_event=wait, request_timeout=0.05)
    for _ in range(3):
        locks.lock("door").acquire().release()
    eventually(lambda: kinds(told) == ["Acquired"], what="the hook is called")
    locks.close()

    assert "has heard of 5 events" in caplog.text
    may_go_on.set()
    eventually(lambda: not set(threading.enumerate()) - before, what="the thread ends")
    assert kinds(told) == ["Acquired"]


def test_a_hook_may_close_its_own_client(flavour) -> None:
    """The close does not wait for the hook, which receives the other events when it returns."""
    told: list[Event] = []

    def close(event: Event) -> None:
        told.append(event)
        locks.close()

    async def aclose(event: Event) -> None:
        told.append(event)
        await locks._inner.aclose()

    if flavour.name == "sync":
        locks = flavour.locks("memory://", on_event=close, request_timeout=PATIENCE)
    else:
        locks = flavour.locks("memory://", on_event=aclose, request_timeout=PATIENCE)
    lock = locks.lock("door")
    lease = lock.acquire()

    eventually(lambda: kinds(told) == ["Acquired", "Lost"])
    assert lease.lost.reason == "closed"


def test_what_is_too_much_for_a_hook_is_counted_and_dropped(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No lease waits for a hook, and a slow hook does not fill up the memory."""
    monkeypatch.setattr(dispatch, "HOOK_QUEUE_MAX", 10)
    may_go_on, is_called = threading.Event(), threading.Event()
    told: list[Event] = []

    def wait(event: Event) -> None:
        is_called.set()
        may_go_on.wait(PATIENCE)
        told.append(event)

    with Locks("memory://", on_event=wait) as locks:
        locks.lock("door").acquire().release()
        assert is_called.wait(PATIENCE)
        for _ in range(10):
            locks.lock("door").acquire().release()
        may_go_on.set()
        eventually(lambda: "has not heard of 11 events" in caplog.text)

    assert len(told) == 11
    assert caplog.text.count("is too slow") == 1


def test_a_client_that_nobody_listens_to_has_no_thread_for_it() -> None:
    before = set(threading.enumerate())
    with Locks("memory://") as locks, locks.lock("door"):
        names = {one.name for one in set(threading.enumerate()) - before}

    assert names == {"lockfast-watchdog"}


def test_hooks_are_called_although_a_program_cancels_all_its_tasks() -> None:
    """Bodies go on for a while, so their leases are renewed, and their events may matter."""
    told: list[str] = []

    async def main() -> None:
        locks, _ = virtual(ttl=9.0, on_event=lambda event: told.append(type(event).__name__))
        lease = await locks.lock("door").acquire()
        await asyncio.sleep(1.0)
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await asyncio.sleep(10.0)
        await lease.release()
        await locks.aclose()

    run_in_virtual_time(main())

    assert told[0] == "Acquired"
    assert "Renewed" in told
    assert told[-1] == "Released"


def test_a_cancelled_hook_does_not_end_the_delivery() -> None:
    told: list[str] = []

    async def hook(event: Event) -> None:
        told.append(type(event).__name__)
        await asyncio.sleep(3600.0)

    async def main() -> None:
        locks, _ = virtual(ttl=9.0, on_event=hook)
        lease = await locks.lock("door").acquire()
        await lease.release()
        for _ in range(2):
            await asyncio.sleep(1.0)
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
        await locks.aclose()

    run_in_virtual_time(main())

    assert told == ["Acquired", "Released"]


def test_a_hook_that_fails_is_told_of_the_next_event(caplog: pytest.LogCaptureFixture) -> None:
    told: list[Event] = []

    def fail(event: Event) -> None:
        told.append(event)
        raise SystemExit(3) if len(told) == 1 else ValueError("mine")

    with Locks("memory://", on_event=fail) as locks:
        locks.lock("door").acquire().release()

    assert kinds(told) == ["Acquired", "Released"]
    assert "tried to exit in the background" in caplog.text
    assert "a hook of the application failed" in caplog.text


def test_a_forked_child_tells_what_happens_there_and_nothing_else() -> None:
    may_go_on = threading.Event()
    told: list[Event] = []

    def wait(event: Event) -> None:
        may_go_on.wait(PATIENCE)
        told.append(event)

    locks = Locks("memory://", on_event=wait, request_timeout=PATIENCE)
    locks.lock("door").acquire().release()
    child = os.fork()
    if child == 0:
        may_go_on.set()
        locks.lock("gate").acquire().release()
        locks.close()
        heard = [(one.name, one.owner.split()[2]) for one in told]
        os._exit(0 if heard == [("gate", str(os.getpid()))] * 2 else 1)
    _, status = os.waitpid(child, 0)
    may_go_on.set()
    locks.close()

    assert os.waitstatus_to_exitcode(status) == 0
    assert [one.name for one in told] == ["door", "door"]


def test_a_hook_hears_on_although_an_interrupt_struck_while_it_was_woken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An application's thread may be interrupted while it wakes the hook."""
    told: list[Event] = []
    with Locks("memory://", on_event=told.append) as locks:
        [(_, delivery)] = locks._client.dispatcher._hooks
        locks.lock("a").acquire().release()
        eventually(lambda: len(told) == 2 and delivery._needs_waking, what="it sleeps")

        def interrupted(_: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(type(delivery._kick), "_open_gates", interrupted)
            with pytest.raises(KeyboardInterrupt):
                delivery._wake()
        locks.lock("b").acquire()
        eventually(lambda: len(told) == 3)


def test_hooks_are_told_to_end_all_at_once() -> None:
    """While the first hook is still busy, the other hooks receive their events, and end."""
    has_ended: list[bool] = []

    def first(_: Event) -> None:
        eventually(lambda: other._ended is not None, what="the other is called")
        has_ended.append(other._ended.wait(PATIENCE))

    locks = Locks("memory://", on_event=[first, lambda _: None], request_timeout=PATIENCE)
    other = locks._client.dispatcher._hooks[1][1]
    locks.lock("door").acquire().release()
    locks.close()

    assert has_ended[0]


def test_an_async_hook_needs_an_event_loop() -> None:
    async def hook(event: Event) -> None:
        """Never called: the sync flavour could not await it."""

    with pytest.raises(ConfigurationError, match="is an async def, and this is the sync flavour"):
        Locks("memory://", on_event=[hook])


@pytest.mark.parametrize("given", ["print", [print, "print"], (None,), {"a": print}])
def test_what_cannot_be_called_is_refused(given: Any) -> None:
    with pytest.raises(TypeError, match=r"on_event is called with the event: .* is not callable"):
        Locks("memory://", on_event=given)


def test_no_hook_at_all_may_be_an_empty_list() -> None:
    async def main() -> None:
        async with AsyncLocks("memory://", on_event=[]) as locks, locks.lock("door") as lease:
            assert lease.is_trusted

    asyncio.run(main())


def test_a_thread_that_cannot_be_had_costs_no_lease(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next event tries to start the thread again; at the latest, close calls the hook."""
    told: list[Event] = []
    caplog.set_level(logging.WARNING)
    with Locks("memory://", on_event=told.append) as locks:

        def none(*_: object, **__: object) -> None:
            raise RuntimeError("can't start new thread")

        monkeypatch.setattr(dispatch.runtime, "spawn_taskless", none)
        monkeypatch.setattr(locks._client.watchdog, "_run_before", lambda _: None)
        with locks.lock("door") as lease:
            assert lease.is_trusted

    assert kinds(told) == ["Acquired", "Released"]
    assert "has to wait: can't start new thread" in caplog.text
