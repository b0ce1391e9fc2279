"""Many waiters of a client share one socket and one probing claim, and delay no renewal."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from contextlib import closing

import pytest

import lockfast
from lockfast.backends.sqlite.doorbell import Doorbell
from lockfast.core.door import ADMISSION_WINDOW_SECONDS
from lockfast.runtime import worker as runtime_worker

CROWD = 60
CYCLES = 50


# -- what waiting costs ----------------------------------------------------------------


async def in_line(locks: lockfast.AsyncLocks, number: int) -> None:
    while len((await locks.inspect("door")).line) != number:  # noqa: ASYNC110 - only the store knows
        await asyncio.sleep(0.005)


def test_a_crowd_of_one_client_shares_one_socket_and_gets_in_by_order(url, belongings):
    """However many claims of a client wait, they share one socket and are served in order."""

    async def play() -> tuple[int, list[int]]:
        async with lockfast.AsyncLocks(url) as holder, lockfast.AsyncLocks(url) as locks:
            await (await locks.lock("warm").acquire()).release()
            held = await holder.lock("door").acquire()
            before, entered = belongings(), list[int]()

            async def wait(number: int) -> None:
                async with locks.lock("door"):
                    entered.append(number)

            tasks = []
            for number in range(CROWD):
                tasks.append(asyncio.create_task(wait(number)))
                await in_line(holder, number + 1)
            sockets = [one for one in before.added() if "socket:" in one]
            await held.release()
            await asyncio.gather(*tasks)
            return len(sockets), entered

    sockets, entered = asyncio.run(play())

    assert sockets == 1
    assert entered == list(range(CROWD))


def test_threads_of_one_client_share_one_socket_and_all_get_in(url, belongings, eventually):
    """One thread reads the socket for all waiters; when it leaves, another thread takes over."""
    with lockfast.Locks(url) as holder, lockfast.Locks(url) as locks:
        locks.lock("warm").acquire().release()
        held = holder.lock("door").acquire()
        before, tokens = belongings(), list[int]()

        def wait() -> None:
            with locks.lock("door", timeout=30) as lease:
                tokens.append(lease.token)

        threads = [threading.Thread(target=wait) for _ in range(CROWD)]
        for thread in threads:
            thread.start()
        eventually(lambda: len(holder.inspect("door").line) == CROWD)
        sockets = [one for one in before.added() if "socket:" in one]
        held.release()
        for thread in threads:
            thread.join()

    assert len(sockets) == 1
    assert len(tokens) == CROWD
    assert tokens == sorted(tokens)


@pytest.mark.parametrize("kind", ["semaphore", "rwlock"])
def test_shared_cycles_leave_no_socket(url, belongings, kind):
    """A claim that is admitted at once needs no doorbell."""
    with lockfast.Locks(url) as locks, lockfast.Locks(url) as other:
        shared = {
            "semaphore": lambda one: one.semaphore("seats", capacity=5),
            "rwlock": lambda one: one.rwlock("book").read(),
        }[kind]
        held = shared(other).acquire()
        shared(locks).acquire().release()
        before = belongings()

        for _ in range(CYCLES):
            shared(locks).acquire().release()

        assert before.added() == []
        assert locks._client.backend._database.bell._claims == {}
        held.release()


def test_only_the_first_of_a_crowd_looks(url, eventually):
    """Waiting costs one request per client and window, not one per waiter."""
    statements: list[str] = []
    with lockfast.Locks(url) as holder, lockfast.Locks(url) as locks:
        held = holder.lock("door").acquire()

        def wait() -> None:
            with locks.lock("door", timeout=30):
                pass

        threads = [threading.Thread(target=wait) for _ in range(CROWD)]
        for thread in threads:
            thread.start()
        eventually(lambda: len(holder.inspect("door").line) == CROWD)
        sqlite = locks._client.backend._database.connection._sqlite
        sqlite.set_trace_callback(statements.append)
        looks = "SELECT client FROM places INDEXED BY standings"
        eventually(
            lambda: sum(one.startswith(looks) for one in statements) >= 2,
            within=6 * ADMISSION_WINDOW_SECONDS,
        )
        sqlite.set_trace_callback(None)
        held.release()
        for thread in threads:
            thread.join()

    assert len(statements) < CROWD / 2


def test_a_waiter_without_a_descriptor_for_its_bell_gets_in_all_the_same(
    url, eventually, monkeypatch
):
    """A waiter that cannot open its doorbell waits an admission window longer, but gets in."""

    def full(_self: Doorbell) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(Doorbell, "_opened", full)
    entered: list[int] = []
    with lockfast.Locks(url) as holder, lockfast.Locks(url) as locks:
        held = holder.lock("door").acquire()

        def wait() -> None:
            with locks.lock("door", timeout=30) as lease:
                entered.append(lease.token)

        threads = [threading.Thread(target=wait) for _ in range(3)]
        for thread in threads:
            thread.start()
        eventually(lambda: len(holder.inspect("door").line) == 3)
        held.release()
        for thread in threads:
            thread.join()

    assert len(entered) == 3


def test_withdrawn_claims_leave_no_tombstone_in_the_file(url, path):
    """Claims that come and go quickly must not make every later verb slower."""

    async def play() -> None:
        async with lockfast.AsyncLocks(url) as holder, lockfast.AsyncLocks(url) as locks:
            held = await holder.lock("door").acquire()

            async def hurry() -> None:
                acquiring = asyncio.create_task(locks.lock("door").acquire())
                await asyncio.sleep(0)
                acquiring.cancel()
                await asyncio.wait([acquiring])

            await asyncio.gather(*(hurry() for _ in range(CROWD)))
            await held.release()

    asyncio.run(play())

    with closing(sqlite3.connect(path)) as raw:
        assert raw.execute("SELECT count(*) FROM places WHERE arrived > 0").fetchone() == (0,)


# -- call priority --------------------------------------------------------------------


def test_an_urgent_call_goes_before_all_that_wait_in_asyncio():
    """A renewal must not queue behind the requests of a crowd."""

    async def play() -> list[object]:
        worker = runtime_worker.TaskWorker("test")
        order: list[object] = []
        inside, resume = threading.Event(), threading.Event()

        def block() -> None:
            inside.set()
            resume.wait()

        first = asyncio.create_task(worker.run(block))
        while not inside.is_set():  # noqa: ASYNC110 - another thread sets it
            await asyncio.sleep(0)
        others = [asyncio.create_task(worker.run(order.append, n)) for n in range(3)]
        await asyncio.sleep(0)
        urgent = asyncio.create_task(worker.run_first(order.append, "urgent"))
        await asyncio.sleep(0)
        resume.set()
        await asyncio.gather(first, *others, urgent)
        await worker.stop()
        return order

    assert asyncio.run(play()) == ["urgent", 0, 1, 2]


def test_an_urgent_call_does_not_stand_in_line_in_threads():
    """On callers' own threads, an urgent call competes with only one call that is not urgent."""
    worker = runtime_worker.ThreadWorker("test")
    order: list[object] = []
    inside, resume = threading.Event(), threading.Event()

    def crowd() -> None:
        with worker._line:  # as the next caller of a crowd would hold the line
            inside.set()
            resume.wait()

    standing = threading.Thread(target=crowd)
    standing.start()
    inside.wait()
    last = threading.Thread(target=worker.run, args=(order.append, "of the crowd"))
    last.start()

    worker.run_first(order.append, "urgent")
    resume.set()
    for one in (standing, last):
        one.join()

    assert order == ["urgent", "of the crowd"]
