"""The cleanup queue, for unanswered requests: which requests wait for which others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from virtual import virtual_clock

from lockfast import AsyncLocks, Grant, LockError, OutcomeUnknown
from lockfast.backends.memory._async.backend import AsyncMemoryBackend
from lockfast.backends.memory.store import MemoryStore
from lockfast.runtime import aio
from lockfast.testing import (
    AsyncFaultyBackend,
    run_in_virtual_time,
)


class _Ended:
    """A task that had ended before anybody looked at it."""

    async def join(self) -> None:
        return

    def is_alive(self) -> bool:
        return False


def _eager(function: Callable[[], Coroutine[Any, Any, None]], *, name: str) -> object:
    """Begin at once, as an eager task does; work that never waits also ends inside this call."""
    if name != "lockfast-followups":
        return aio.Task(asyncio.get_running_loop().create_task(function(), name=name))
    coroutine = function()
    with pytest.raises(StopIteration):
        coroutine.send(None)
    return _Ended()


def test_a_follow_up_that_ends_before_spawn_returns_is_not_the_last(monkeypatch: Any) -> None:
    """An eager task runs inside the call that makes it."""

    async def main() -> None:
        backend = AsyncFaultyBackend.around("memory://eager")
        async with AsyncLocks.from_backend(backend) as locks:
            monkeypatch.setattr(aio, "spawn", _eager)
            for name in ("first", "second"):
                lease = await locks.lock(name).acquire()
                backend.lose_request("release")
                with pytest.raises(OutcomeUnknown):
                    await lease.release()
                assert not await locks.lock(name).locked()
            monkeypatch.undo()

    asyncio.run(main())


class _TwoServers(AsyncMemoryBackend):
    """Keeps names on two servers, by their first letter; one server does not answer."""

    is_away = True

    def server_of(self, name: str) -> str:
        return name[0]

    async def release(self, grant: Grant, *, deadline: float, tombstone: bool) -> bool:
        if self.is_away and grant.claim.name.startswith("a"):
            await asyncio.sleep(2.0)
            raise OutcomeUnknown("no answer")
        if not tombstone:
            raise OutcomeUnknown("reset, this once")
        return await super().release(grant, deadline=deadline, tombstone=tombstone)


def test_a_server_that_does_not_answer_delays_nothing_at_another() -> None:
    """Ten releases are pending at one server; the other server gets its own release at once."""

    async def main() -> None:
        clock = virtual_clock()
        backend = _TwoServers(clock=clock, store=MemoryStore(clock))
        async with AsyncLocks.from_backend(backend, clock=clock, ttl=60.0) as locks:
            leases = [await locks.lock(f"a{i}").acquire() for i in range(10)]
            last = await locks.lock("b").acquire()
            ended = await asyncio.gather(*(one.release() for one in leases), return_exceptions=True)
            assert all(isinstance(one, OutcomeUnknown) for one in ended)
            with pytest.raises(OutcomeUnknown):
                await last.release()

            await asyncio.sleep(0.1)

            assert not await locks.lock("b").locked()
            assert await locks.lock("a0").locked()
            backend.is_away = False
            await asyncio.sleep(30.0)
            assert locks._client.cleanup_queue.are_done

    run_in_virtual_time(main())


def test_follow_ups_outlive_the_cancellation_of_every_task() -> None:
    """A loop that shuts down cancels all tasks; the queue goes on and sends the open requests."""

    async def main() -> None:
        clock = virtual_clock()
        inner = AsyncMemoryBackend(clock=clock, store=MemoryStore(clock))
        backend = AsyncFaultyBackend(inner, clock=clock)
        async with AsyncLocks.from_backend(backend, clock=clock) as locks:
            for name in ("first", "second"):
                lease = await locks.lock(name).acquire()
                backend.lose_request("release", times=2)
                with pytest.raises(OutcomeUnknown):
                    await lease.release()
                for task in asyncio.all_tasks() - {asyncio.current_task()}:
                    if task.get_name() == "lockfast-followups":
                        task.cancel()
                await asyncio.sleep(0)
            backend.come_back()

            locks._client.cleanup_queue.resume()
            await asyncio.sleep(5.0)

            assert locks._client.cleanup_queue.are_done

    run_in_virtual_time(main())


def test_closing_waits_once_for_whoever_asks_and_for_what_is_open() -> None:
    """One wait covers a waiter's withdrawal, a lease and the cleanup queue together."""

    async def main() -> None:
        clock = virtual_clock()
        store = MemoryStore(clock)
        backend = AsyncFaultyBackend(AsyncMemoryBackend(clock=clock, store=store), clock=clock)
        locks = AsyncLocks.from_backend(backend, clock=clock, request_timeout=1.0)
        other = AsyncLocks.from_backend(AsyncMemoryBackend(clock=clock, store=store), clock=clock)
        await other.lock("door").acquire()
        open_, held = [await locks.lock(name).acquire() for name in ("open", "held")]
        waiting = asyncio.create_task(locks.lock("door").acquire())
        await asyncio.sleep(0.1)
        for verb in ("release", "withdraw", "disown"):
            backend.hang(verb, times=99)
        with pytest.raises(OutcomeUnknown):
            await open_.release()
        started = clock.now()

        await locks.aclose()

        assert clock.now() - started <= 1.2
        with pytest.raises(LockError):
            await waiting
        assert held.lost.reason == "closed"
        await other.aclose()

    run_in_virtual_time(main())
