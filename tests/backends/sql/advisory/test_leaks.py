"""Nothing of a client is left: no thread, no task, no socket, no session of the server."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

from holdfast import AsyncLocks, LeaseLost, Locks
from holdfast.challenge.eventually import eventually


def files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_sync_clients_leave_nothing(store, url, name):
    def use() -> None:
        with Locks(url, request_timeout=10.0) as locks, Locks(url, request_timeout=10.0) as other:
            lease = locks.lock(name).acquire()
            assert other.lock(name).try_acquire() is None
            lease.release()

    use()
    eventually(lambda: store.sessions() == 0, what="the server has ended them")
    before = files(), threading.active_count()
    for _ in range(10):
        use()

    assert (files(), threading.active_count()) == before
    eventually(lambda: store.sessions() == 0, what="the server has ended them")


def test_asyncio_clients_leave_nothing(store, url, name):
    async def use() -> None:
        async with (
            AsyncLocks(url, request_timeout=10.0) as locks,
            AsyncLocks(url, request_timeout=10.0) as other,
        ):
            lease = await locks.lock(name).acquire()
            assert await other.lock(name).try_acquire() is None
            await lease.release()
        # The loop closes sockets in its next turns.
        await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(use())
    before = files(), threading.active_count()
    for _ in range(10):
        asyncio.run(use())

    assert (files(), threading.active_count()) == before
    eventually(lambda: store.sessions() == 0, what="the server has ended them")


def test_sessions_that_were_lost_leave_nothing(store, url, name):
    with Locks(url, ttl=60.0, request_timeout=10.0) as locks:
        locks.lock(name).acquire().release()
        before = files(), threading.active_count()
        for number in range(5):
            lease = locks.lock(f"{name} {number}").acquire()
            store.end_sessions()
            assert lease.lost.wait(20)
            try:
                lease.release()
            except LeaseLost:
                locks.lock(name).acquire().release()

        eventually(
            lambda: files() <= before[0] and threading.active_count() <= before[1] + 1,
            what="only one session is left",  # and the watchdog
        )
