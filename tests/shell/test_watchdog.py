"""The background of a client: what it watches, and what it leaves alone."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
from typing import Any

import pytest
from virtual import virtual

from lockfast import AsyncLocks, LeaseLost, Locks, OutcomeUnknown
from lockfast.backends.memory._async.backend import AsyncMemoryBackend
from lockfast.backends.memory._sync.backend import MemoryBackend
from lockfast.backends.memory.store import MemoryStore
from lockfast.testing import (
    FaultyBackend,
    ManualClock,
    run_in_virtual_time,
)
from lockfast_challenge.processes import eventually


def test_an_abandoned_lease_is_no_longer_renewed() -> None:
    """Neither the lease nor its lock is reachable, so nobody could release the lease."""

    async def main() -> None:
        locks, backend = virtual(ttl=9.0)
        await locks.lock("door").acquire()
        gc.collect()

        with pytest.warns(ResourceWarning, match="abandoned"):
            await asyncio.sleep(4.0)
        await asyncio.sleep(10.0)

        assert backend.calls["renew"] == 0
        assert not await locks.lock("door").locked()
        await locks.aclose()

    run_in_virtual_time(main())


def test_withdrawals_that_hang_keep_no_lease_from_its_renewal() -> None:
    async def main() -> None:
        locks, backend = virtual(ttl=6.0, request_timeout=5.0)
        lease = await locks.lock("door").acquire()
        backend.lose_reply("try_acquire", times=20)
        backend.hang("withdraw", times=99)

        async def ask(name: str) -> None:
            with pytest.raises(OutcomeUnknown):
                await locks.lock(name).acquire(timeout=1.0)

        await asyncio.gather(*(ask(f"gate {number}") for number in range(10)))
        await asyncio.sleep(30.0)

        assert lease.is_trusted
        assert backend.delivered["renew"] >= 10
        backend.come_back()
        await lease.release()
        await locks.aclose()

    run_in_virtual_time(main())


def test_a_loss_is_told_while_a_renewal_hangs() -> None:
    """The hanging renewal is for another lease, and began before the lost lease was acquired."""

    async def main() -> None:
        locks, backend = virtual(ttl=6.0, request_timeout=5.0)
        long = await locks.lock("door").acquire()
        backend.hang("renew")
        await asyncio.sleep(2.5)
        assert backend.calls["renew"] == 1
        short = await locks.lock("gate", max_hold=0.3).acquire()

        await asyncio.sleep(0.31)

        assert short.lost.reason == "max_hold"
        assert long.is_trusted
        await locks.aclose()

    run_in_virtual_time(main())


async def _too_few_answers(*_: Any, **__: Any) -> list[Any]:
    return []


def _no_thread(*_: Any, **__: Any) -> None:
    raise RuntimeError("can't start new thread")


@pytest.mark.parametrize(
    ("what", "instead"),
    [
        ("lockfast.backends.memory._async.backend.AsyncMemoryBackend.renew", _too_few_answers),
        ("lockfast.runtime.aio.spawn", _no_thread),
    ],
    ids=["a backend that answers too few", "a machine with no thread to spare"],
)
def test_a_renewal_that_cannot_be_made_does_not_end_the_background(
    monkeypatch: pytest.MonkeyPatch, what: str, instead: Any
) -> None:
    async def main() -> None:
        locks, _ = virtual(ttl=9.0)
        lease = await locks.lock("door").acquire()

        monkeypatch.setattr(what, instead)
        await asyncio.sleep(4.0)
        assert lease.is_at_risk
        monkeypatch.undo()
        await asyncio.sleep(20.0)

        assert lease.is_trusted
        await locks.aclose()

    run_in_virtual_time(main())


def test_a_lease_whose_lock_is_kept_is_not_abandoned() -> None:
    """The program can still end the lease by `lock.release()`."""

    async def main() -> None:
        locks, _ = virtual(ttl=9.0)
        lock = locks.lock("door")
        await lock.acquire()
        gc.collect()

        await asyncio.sleep(30.0)

        assert await lock.locked()
        await lock.release()
        assert not await lock.locked()
        await locks.aclose()

    run_in_virtual_time(main())


def test_renewals_that_are_due_together_go_in_one_request() -> None:
    """A thousand leases need three batches per ttl."""

    async def main() -> None:
        locks, backend = virtual(ttl=30.0)
        leases = [await locks.lock(f"door-{n}").acquire() for n in range(1000)]

        await asyncio.sleep(31.0)

        assert backend.calls["renew"] <= 6
        assert all(lease.is_trusted for lease in leases)
        await locks.aclose()

    run_in_virtual_time(main())


def test_an_outage_shorter_than_the_ttl_loses_nothing() -> None:
    """The lease is at risk during the outage, and then renewed again."""
    events: list[str] = []

    async def main() -> None:
        locks, backend = virtual(
            ttl=30.0, on_event=lambda event: events.append(type(event).__name__)
        )
        async with locks.lock("door") as lease:
            await asyncio.sleep(5.0)
            backend.go_away()
            await asyncio.sleep(12.0)
            assert lease.is_at_risk
            backend.come_back()
            await asyncio.sleep(5.0)
            assert not lease.is_at_risk
            assert lease.is_trusted
        await locks.aclose()

    run_in_virtual_time(main())
    assert events[0] == "Acquired"
    assert events.count("AtRisk") == 1
    assert "Renewed" in events
    assert events[-1] == "Released"


def test_a_backend_that_fails_in_a_renewal_does_not_end_the_watchdog(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An error that is not one of Lockfast's is a defect, but other leases are still renewed."""

    async def main() -> None:
        locks, backend = virtual(ttl=30.0)
        renew, failures = backend.inner.renew, [ValueError("defect")]

        async def fail_once(*args: Any, **options: Any) -> Any:
            if failures:
                raise failures.pop()
            return await renew(*args, **options)

        backend.inner.renew = fail_once  # type: ignore[method-assign]
        lease = await locks.lock("door").acquire()
        await asyncio.sleep(40.0)

        assert lease.is_trusted
        await locks.aclose()

    run_in_virtual_time(main())
    assert "the backend failed in a renewal" in caplog.text


def test_a_failing_hook_never_harms_a_lease(caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: object) -> None:
        raise RuntimeError("mine")

    with Locks("memory://", on_event=fail) as locks, locks.lock("door") as lease:
        assert lease.is_trusted

    assert "a hook of the application failed" in caplog.text


def test_events_are_logged_with_their_fields(caplog: pytest.LogCaptureFixture) -> None:
    """Log handlers format; the log carries fields."""
    caplog.set_level(logging.DEBUG, logger="lockfast")
    with Locks("memory://") as locks, locks.lock("door") as lease:
        token = lease.token

    fields = [record.lockfast for record in caplog.records if hasattr(record, "lockfast")]
    assert [one["event"] for one in fields] == ["Acquired", "Released"]
    assert fields[0]["token"] == token
    assert fields[0]["name"] == "door"


def test_the_line_of_a_loss_says_why(caplog: pytest.LogCaptureFixture) -> None:
    """Most logs show the message and no fields."""
    with Locks("memory://") as locks:
        lease = locks.lock("door").acquire()
        locks.break_("door")

    [told] = [one for one in caplog.records if hasattr(one, "lockfast")]
    assert told.levelno == logging.WARNING
    assert told.getMessage() == (
        f"lease on 'door' lost: an operator broke it (broken); its token is {lease.token}"
    )
    assert told.lockfast["reason"] == "broken"


def test_a_close_while_holding_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    """The application closed the client itself, and would be warned once for each of its leases."""
    caplog.set_level(logging.INFO, logger="lockfast")
    with Locks("memory://") as locks:
        for name in ("door", "window"):
            locks.lock(name).acquire()

    told = [one for one in caplog.records if hasattr(one, "lockfast")]
    assert {one.levelno for one in told} == {logging.INFO}
    assert [one.getMessage().partition(";")[0] for one in told] == [
        f"lease on '{name}' lost: its client was closed (closed)" for name in ("door", "window")
    ]


def test_a_child_task_that_waits_for_its_parents_lock_is_warned() -> None:
    """A child task is another owner than its parent, so this wait would never end."""

    async def main() -> None:
        locks, _ = virtual()

        async def child() -> None:
            await locks.lock("door").acquire(timeout=1)

        async with locks.lock("door"):
            with pytest.warns(RuntimeWarning, match="another owner") as caught:
                await asyncio.gather(child(), return_exceptions=True)
        assert caught[0].filename == __file__
        await locks.aclose()

    run_in_virtual_time(main())


def test_the_first_call_after_a_sleep_tells_of_the_loss() -> None:
    """In the sync flavour, the clock has jumped by an hour, and no thread has looked at it yet."""
    clock = ManualClock()
    clock.longest_sleep = 60.0  # the watchdog is asleep, as after a suspend
    locks = Locks.from_backend(MemoryBackend(clock=clock, store=MemoryStore(clock)), clock=clock)
    told: list[object] = []
    lease = locks.lock("door", on_lost=told.append).acquire()
    clock.advance(3600)

    with locks.lock("other"):
        pass

    assert lease.lost.is_set()
    eventually(lambda: told == [lease])
    with pytest.raises(LeaseLost):
        lease.check()
    clock.longest_sleep = 0.005
    locks.close()


def test_a_thread_does_not_trust_a_lease_that_ended_while_the_background_slept() -> None:
    clock = ManualClock()
    clock.longest_sleep = 60.0  # the watchdog is asleep, as after a suspend
    locks = Locks.from_backend(MemoryBackend(clock=clock, store=MemoryStore(clock)), clock=clock)
    lease = locks.lock("door").acquire()
    clock.advance(3600)

    assert not lease.is_trusted
    with pytest.raises(LeaseLost):
        lease.check()

    clock.longest_sleep = 0.005
    locks.close()


def test_a_task_does_not_trust_a_lease_that_ended_while_the_background_slept() -> None:
    async def main() -> None:
        clock = ManualClock()
        backend = AsyncMemoryBackend(clock=clock, store=MemoryStore(clock))
        locks = AsyncLocks.from_backend(backend, clock=clock)
        lease = await locks.lock("door").acquire()
        clock.advance(3600)  # nothing is awaited from here, so the background cannot run

        assert not lease.is_trusted
        with pytest.raises(LeaseLost):
            lease.check()

        await locks.aclose()

    asyncio.run(main())


def test_closing_does_not_release_under_the_feet_of_another_thread() -> None:
    """A sync block that still runs is notified, and its name is left to expire."""
    clock = ManualClock()
    store = MemoryStore(clock)
    backend = FaultyBackend(MemoryBackend(clock=clock, store=store), clock=clock)
    locks = Locks.from_backend(backend, clock=clock, ttl=10.0)
    other = Locks.from_backend(MemoryBackend(clock=clock, store=store), clock=clock)
    is_inside, may_leave = threading.Event(), threading.Event()
    reasons: list[str] = []

    def body() -> None:
        try:
            with locks.lock("door"):
                is_inside.set()
                may_leave.wait(10)
        except LeaseLost as error:
            reasons.append(error.reason)

    thread = threading.Thread(target=body)
    thread.start()
    is_inside.wait(10)
    locks.close()

    assert other.lock("door").try_acquire() is None
    may_leave.set()
    thread.join(10)
    assert reasons == ["closed"]
    assert backend.calls["release"] == 0
    clock.advance(11)
    assert other.lock("door").try_acquire() is not None
    other.close()
