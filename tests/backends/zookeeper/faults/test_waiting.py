"""Very many waiters: each waiter is woken when its turn comes, and not before."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from both_flavours import number_waiting

from lockfast import AsyncLocks
from lockfast_challenge.servers.zookeeper import ZooKeeperServer

CLIENTS = 5


@dataclass
class Course:
    """How a line was served, and what that cost the server from the first release on."""

    arrived: list[int]
    served: list[int]
    tokens: list[int]
    watches: int = 0
    wakings: int = 0
    requests: int = 0


def play(server: ZooKeeperServer, *, waiters: int, lock: Callable[[AsyncLocks], Any]) -> Course:
    """Let waiters of several clients queue behind one holder; then let them all through.

    `lock` makes the lock that the waiters want, from a client.
    """
    course = Course([], [], [])

    async def work() -> None:
        opened = [AsyncLocks(server.url, ttl=30, request_timeout=20) for _ in range(CLIENTS)]
        first = lock(opened[0])
        lease = await first.acquire()
        tasks: list[Awaitable[None]] = []
        for client, locks in enumerate(opened):
            mine = range(client, waiters, CLIENTS)
            course.arrived.extend(mine)
            await locks.inspect(first.name)  # connect first, so that the requests arrive in order
            # Use empty contexts, because child tasks of the holding task would draw a warning.
            tasks += [
                asyncio.create_task(_turn(lock(locks), n, course), context=contextvars.Context())
                for n in mine
            ]
            while len((await locks.inspect(first.name)).line) < len(tasks):  # noqa: ASYNC110
                await asyncio.sleep(0.02)  # the server notifies nobody when a claim joins
            while number_waiting(locks) < len(mine):  # noqa: ASYNC110
                await asyncio.sleep(0.02)  # each waiter knows that it waits, and so watches
        before = await asyncio.to_thread(server.figures)
        course.watches = before["zk_watch_count"]
        await lease.release()
        await asyncio.gather(*tasks)
        after = await asyncio.to_thread(server.figures)
        course.wakings = after[WAKINGS] - before[WAKINGS]
        course.requests = after["zk_packets_received"] - before["zk_packets_received"]
        for one in opened:
            await one.aclose()

    asyncio.run(work())
    return course


WAKINGS = "zk_sum_node_deleted_watch_count"
"""The metric that counts the watches that fired because their node was deleted."""


async def _turn(lock: Any, number: int, course: Course) -> None:
    async with lock as lease:
        course.served.append(number)
        course.tokens.append(lease.token)


def test_five_hundred_waiters_are_woken_one_by_one(own_server, name):
    """Each of 500 waiters costs one watch and one wakeup, and is served in order of arrival."""
    course = play(own_server, waiters=500, lock=lambda locks: locks.lock(name))

    assert course.watches == 500
    assert course.wakings == 500
    # A waiter looks when it is woken, and then releases, each time with an extra request for its
    # own node; keep-alives add to that. A herd would cost hundreds of requests per waiter.
    assert course.requests <= 5 * 500
    assert course.served == course.arrived
    assert course.tokens == sorted(set(course.tokens))


def test_waiters_for_permits_are_not_all_woken_by_each_release(own_server, name):
    """The first waiter watches the holders; each later waiter watches the claim in front of it."""

    def permits(locks: AsyncLocks) -> Any:
        return locks.semaphore(name, capacity=3, permits=2)

    course = play(own_server, waiters=100, lock=permits)

    assert course.wakings <= 3 * 100
    assert course.requests <= 8 * 100
    assert course.served == course.arrived


def test_readers_are_let_in_together_by_the_writer_in_front(own_server, name):
    """All readers may enter together, so all are woken; the server notifies each client once."""
    course = play_readers(own_server, name, readers=100)

    assert course.wakings == CLIENTS
    assert course.requests <= 5 * 100
    assert sorted(course.served) == sorted(course.arrived)


def play_readers(server: ZooKeeperServer, name: str, *, readers: int) -> Course:
    """Let a writer hold, and this many readers wait behind the writer."""
    opened: list[Any] = []

    def first_a_writer(locks: AsyncLocks) -> Any:
        rwlock = locks.rwlock(name)
        opened.append(rwlock)
        return rwlock.write() if len(opened) == 1 else rwlock.read()

    return play(server, waiters=readers, lock=first_a_writer)


def test_who_gives_up_in_the_middle_of_the_line_wakes_nobody_in_vain(flavour, server, door):
    """When a waiter gives up, the waiter behind it watches the next claim in front instead."""
    opened = [flavour.locks(server.url, ttl=30) for _ in range(2)]
    lease = door.elsewhere(ttl=30).acquire()
    waiters = []
    for number in range(3):
        wanted = opened[number % 2].lock(door.name)
        timeout = 1.5 if number == 1 else 20
        waiters.append(flavour.start(wanted.acquire, timeout=timeout))
        door.until([lease.token], number + 1)

    with pytest.raises(TimeoutError):
        waiters[1].result(5)
    door.until([lease.token], 2)
    assert not waiters[0].done()
    assert not waiters[2].done()
    lease.release()
    second = waiters[0].result(20)

    assert not waiters[2].done()
    second.release()
    assert waiters[2].result(20).token > second.token
