"""Use leaves nothing behind, however many names and clients there were."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from lengths import length

import lockfast

NAMES_IN_MEMORY = length(50_000, long=200_000)
NAMES_IN_A_FILE = 20_000
CLIENTS_IN_MEMORY = 2_000
CLIENTS_OF_A_FILE = 300
UNICODE_NAMES = 10_000
WARM_UP = 1_000

BLOCKS = 500
"""Memory blocks that the interpreter itself may keep, as for caches or a resized dict.

A leak from one name in forty would exceed this limit.
"""

MEGABYTES = 8
"""Megabytes of memory that may stay in use: freed memory is not always returned to the system."""


class Size:
    """The size of this process, in objects and in memory."""

    def __init__(self) -> None:
        gc.collect()
        self.blocks = sys.getallocatedblocks()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        self.megabytes = pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def cycle(locks: lockfast.Locks, names: range) -> None:
    for number in names:
        locks.lock(f"order:{number}").acquire().release()


@pytest.mark.parametrize(
    ("store", "names"), [("memory", NAMES_IN_MEMORY), ("sqlite", NAMES_IN_A_FILE)]
)
def test_many_names_leave_the_client_no_larger(store, names, url):
    """A client that locks one name per order id remembers none of those names."""
    with lockfast.Locks("memory://" if store == "memory" else url) as locks:
        cycle(locks, range(WARM_UP))
        before = Size()

        cycle(locks, range(WARM_UP, WARM_UP + names))

        after = Size()
        assert after.blocks - before.blocks < BLOCKS
        assert after.megabytes - before.megabytes < MEGABYTES


def test_refused_names_leave_the_client_no_larger(url):
    """A client remembers nothing of names that it failed to acquire."""
    with lockfast.Locks(url) as holder, lockfast.Locks(url) as locks:
        held = holder.lock("door").acquire()
        for _ in range(WARM_UP):
            locks.lock("door").try_acquire()
        before = Size()

        for _ in range(5 * WARM_UP):
            assert locks.lock("door").try_acquire() is None

        assert Size().blocks - before.blocks < BLOCKS
        held.release()


def open_and_close(url: str, clients: int) -> None:
    for number in range(clients):
        with lockfast.Locks(url) as locks:
            locks.lock(f"door {number % 7}").acquire().release()


def test_waiters_that_give_up_together_leave_nothing_in_their_client(url):
    """Each waiter that leaves wakes the next waiter, which may be leaving just then."""

    async def give_up(locks: lockfast.AsyncLocks) -> None:
        with pytest.raises(lockfast.AcquireTimeout):
            await locks.lock("door").acquire(timeout=0.3)

    async def scenario() -> None:
        async with lockfast.AsyncLocks(url) as locks, lockfast.AsyncLocks(url) as others:
            async with others.lock("door"):
                await asyncio.gather(*(give_up(locks) for _ in range(50)))

            assert locks._client.backend._early_wakeups == set()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("store", "clients"), [("memory", CLIENTS_IN_MEMORY), ("sqlite", CLIENTS_OF_A_FILE)]
)
def test_clients_leave_no_thread_socket_or_file(store, clients, url, path, belongings):
    """Law 14: a client that was opened, used and closed leaves nothing behind."""
    address = "memory://" if store == "memory" else url
    open_and_close(address, 50)
    before, size = belongings(), Size()

    open_and_close(address, clients)

    assert before.added() == []
    assert Size().blocks - size.blocks < BLOCKS
    assert [one.name for one in path.parent.glob("*-clients/*")] in ([], ["boot"])


@pytest.mark.parametrize(
    ("store", "clients"), [("memory", CLIENTS_IN_MEMORY // 2), ("sqlite", CLIENTS_OF_A_FILE)]
)
def test_asyncio_clients_leave_no_thread_task_socket_or_file(store, clients, url, belongings):
    """Law 14: a closed client leaves nothing behind in a loop that keeps running."""
    address = "memory://" if store == "memory" else url

    async def use(times: int) -> None:
        for number in range(times):
            async with lockfast.AsyncLocks(address) as locks, locks.lock(f"door {number % 7}"):
                pass

    async def added() -> tuple[list[str], int]:
        before, tasks = belongings(), len(asyncio.all_tasks())
        await use(clients)
        return before.added(), len(asyncio.all_tasks()) - tasks

    assert asyncio.run(added()) == ([], 0)


def test_a_client_that_is_closed_in_the_middle_of_a_hold_leaves_nothing(url, belongings):
    """Law 14: closing a client with a lease that was never released leaves nothing behind."""
    before = belongings()

    with lockfast.Locks(url) as locks:
        lease = locks.lock("door").acquire()

    assert not lease.is_trusted
    assert before.added() == []


@pytest.fixture(params=["memory", "sqlite"])
def shared(request, url, tmp_path) -> str:
    return f"memory://{tmp_path.name}" if request.param == "memory" else url


def test_closing_ends_the_waiting_of_other_threads(shared, eventually, belongings):
    """Law 14: a waiter of a closed client gets an error, and leaves nothing behind."""
    before = belongings()
    told: list[object] = []
    with lockfast.Locks(shared) as other:
        held = other.lock("door").acquire()
        locks = lockfast.Locks(shared)

        def wait() -> None:
            try:
                told.append(locks.lock("door").acquire(timeout=60))
            except BaseException as error:  # noqa: BLE001 - reported by the test
                told.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        eventually(lambda: other.inspect("door").line)

        locks.close()
        thread.join(timeout=30)
        is_stuck = thread.is_alive()
        line = other.inspect("door").line
        held.release()
        thread.join()

    assert not is_stuck
    assert [type(one) for one in told] == [lockfast.LocksClosed]
    assert line == ()
    assert before.added() == []


def test_closing_ends_the_waiting_of_other_tasks(shared, belongings):
    """Law 14: in asyncio, too, a waiter of a closed client gets an error."""

    async def play() -> tuple[object, int, list[str]]:
        before = belongings()
        other, locks = lockfast.AsyncLocks(shared), lockfast.AsyncLocks(shared)
        held = await other.lock("door").acquire()
        waiting = asyncio.create_task(locks.lock("door").acquire(timeout=60))
        while not (await other.inspect("door")).line:  # noqa: ASYNC110 - only the store knows
            await asyncio.sleep(0.002)

        await locks.aclose()
        [told] = await asyncio.gather(waiting, return_exceptions=True)
        line = len((await other.inspect("door")).line)
        await held.release()
        await other.aclose()
        return told, line, before.added()

    told, line, added = asyncio.run(play())

    assert type(told) is lockfast.LocksClosed
    assert line == 0
    assert added == []


def random_name(chance: random.Random) -> str:
    alphabets: list[Callable[[], int]] = [
        lambda: chance.randrange(0, 0x80),
        lambda: chance.randrange(0x80, 0x800),
        lambda: chance.randrange(0x300, 0x370),  # combining marks
        lambda: chance.choice(b"aA0 %_*?[]:/\\'\"\0\n"),
        lambda: chance.randrange(0xE000, 0x110000),
    ]
    return "".join(chr(chance.choice(alphabets)()) for _ in range(chance.randint(1, 12)))


def test_no_two_of_ten_thousand_names_share_a_lock(url):
    """Law 12: names are compared byte by byte, whatever is in them."""
    chance = random.Random(12)  # noqa: S311 - a run can be repeated
    names = {"é", "e\u0301", "K", "\u212a", "a", "A", "a ", " a", "a\0", "a\0b", "ss", "ß"}
    while len(names) < UNICODE_NAMES:
        names.add(random_name(chance))

    # Ten thousand renewals at once take their time on a slow machine.
    patient = {"ttl": 600.0, "request_timeout": 60.0}
    with lockfast.Locks(url, **patient) as locks, lockfast.Locks(url, **patient) as other:
        leases = {name: locks.lock(name).try_acquire() for name in names}
        refused = [name for name, lease in leases.items() if lease is None]
        entered = [name for name in names if other.lock(name).try_acquire() is not None]
        known = {one.name for one in other.survey()}
        for lease in leases.values():
            lease.release()

    assert refused == []
    assert entered == []
    assert known == names


IDLE_FOR_LONG = 25.0
"""Seconds: less than the time after which an idle background ends by itself."""


def drop_clients(flavour: str, url: str) -> None:
    def use() -> None:
        with lockfast.Locks(url).lock("door"):
            pass

    async def use_in_tasks() -> None:
        async with lockfast.AsyncLocks(url).lock("door"):
            pass

    for _ in range(5):
        use() if flavour == "sync" else asyncio.run(use_in_tasks())


@pytest.mark.parametrize("flavour", ["sync", "async"])
def test_clients_that_are_dropped_without_close_are_gone_soon_and_told_of(
    flavour, url, belongings, eventually
):
    """A client that was dropped without close must not keep threads and descriptors for long."""
    before = belongings()

    def are_gone() -> bool:
        gc.collect()
        return not before.added()

    gc.collect()  # clients that other tests dropped must not be reported here
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        drop_clients(flavour, url)
        eventually(are_gone, within=IDLE_FOR_LONG)

    said = [str(one.message) for one in told if "dropped without close()" in str(one.message)]
    assert len(said) == 5


def test_a_lock_outlives_the_client_object_that_made_it(url, eventually):
    """A lock keeps the client's internals alive, and its leases are renewed as before."""
    told: list[lockfast.Event] = []
    lock = lockfast.Locks(url, ttl=15, on_event=told.append).lock("door")
    gc.collect()

    with lock as lease:
        lock._client.watchdog.hurry()  # otherwise the renewal would come seconds later
        eventually(lambda: any(isinstance(one, lockfast.Renewed) for one in told))
        lease.check()
    lock._client.close()
