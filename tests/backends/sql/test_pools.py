"""A caller that waits for a connection gets one in its turn, however quick other callers are."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from lockfast.backends.sql._async.pool import AsyncConnectionPool
from lockfast.backends.sql._sync.pool import ConnectionPool
from lockfast.errors import BackendUnavailable
from lockfast.runtime.clock import Clock
from lockfast_challenge.processes import eventually

PATIENCE = 30.0
CLOCK = Clock()


class Link:
    """A connection to nowhere."""

    is_borrowed = False

    def __init__(self) -> None:
        self.is_new = True
        self.used_at = CLOCK.now()
        self.is_open = False

    def is_sound(self) -> bool:
        return self.is_open

    def close(self) -> None:
        self.is_open = False

    def abandon_in_child(self) -> None:
        self.close()


def connect(connection: Link, deadline: float) -> None:
    connection.is_open = True


async def connect_async(connection: Link, deadline: float) -> None:
    connection.is_open = True


def options(most: int) -> dict[str, Any]:
    return {"where": "nowhere", "clock": CLOCK, "most": most, "idle": 30.0}


def soon() -> float:
    return CLOCK.now() + PATIENCE


def thread_pool(most: int = 1) -> ConnectionPool[Link]:
    return ConnectionPool(Link, connect, **options(most))


def task_pool(most: int = 1) -> AsyncConnectionPool[Link]:
    return AsyncConnectionPool(Link, connect_async, **options(most))


def test_a_thread_that_asks_without_a_pause_lets_one_pass_that_waits():
    pool = thread_pool()
    connection = pool.take(soon())
    served: list[Link] = []
    other = threading.Thread(target=lambda: served.append(pool.take(soon())))
    other.start()
    eventually(lambda: pool._waiting, what="the other waits")

    pool.put_back(connection)
    with pytest.raises(BackendUnavailable, match="no connection was free in time"):
        pool.take(CLOCK.now())

    other.join(PATIENCE)
    assert served == [connection]


def test_a_task_that_asks_without_a_pause_lets_one_pass_that_waits():
    async def run() -> None:
        pool = task_pool()
        connection = await pool.take(soon())
        other = asyncio.ensure_future(pool.take(soon()))
        await asyncio.sleep(0)

        pool.put_back(connection)
        with pytest.raises(BackendUnavailable, match="no connection was free in time"):
            await pool.take(CLOCK.now())

        assert await other is connection

    asyncio.run(run())


def test_threads_that_wait_are_served_in_their_order_by_one_connection_or_another():
    pool = thread_pool()
    connection, served, running = pool.take(soon()), list[int](), []

    def pass_through(number: int) -> None:
        mine = pool.take(soon())
        served.append(number)
        # A broken connection frees its place in the pool as well.
        if number % 2:
            mine.close()
        pool.put_back(mine)

    for number in range(6):
        running.append(threading.Thread(target=pass_through, args=(number,)))
        running[-1].start()
        eventually(lambda: len(pool._waiting) == len(running), what="it waits")
    pool.put_back(connection)
    for one in running:
        one.join(PATIENCE)

    assert served == [0, 1, 2, 3, 4, 5]
    assert pool.size <= 1


def test_tasks_that_wait_are_served_in_their_order_by_one_connection_or_another():
    async def run() -> None:
        pool = task_pool()
        connection, served = await pool.take(soon()), list[int]()

        async def pass_through(number: int) -> None:
            mine = await pool.take(soon())
            served.append(number)
            if number % 2:
                mine.close()
            pool.put_back(mine)

        running = []
        for number in range(6):
            running.append(asyncio.ensure_future(pass_through(number)))
            await asyncio.sleep(0)
        pool.put_back(connection)
        await asyncio.gather(*running)

        assert served == [0, 1, 2, 3, 4, 5]
        assert pool.size <= 1

    asyncio.run(run())


@pytest.mark.parametrize("is_open", [True, False], ids=["connection", "room"])
def test_what_a_task_was_given_that_is_cancelled_goes_to_the_next(is_open):
    async def run() -> None:
        pool = task_pool()
        connection = await pool.take(soon())
        first = asyncio.ensure_future(pool.take(soon()))
        second = asyncio.ensure_future(pool.take(soon()))
        await asyncio.sleep(0)

        connection.is_open = is_open
        pool.put_back(connection)
        first.cancel()

        found = await second
        assert found.is_open
        assert (found is connection) is is_open
        assert first.cancelled()
        assert pool.size == 1

    asyncio.run(run())


class Server:
    """Connects links, and records which."""

    def __init__(self) -> None:
        self.connected: list[Link] = []

    def connect(self, connection: Link, deadline: float) -> None:
        self.connected.append(connection)
        connect(connection, deadline)

    async def connect_async(self, connection: Link, deadline: float) -> None:
        self.connect(connection, deadline)


def test_a_connection_that_ended_while_idle_is_never_connected_again_for_a_thread():
    """What it knows about its session, such as the prepared statements, ended with the session."""
    server = Server()
    pool = ConnectionPool(Link, server.connect, **options(1))
    ended = pool.take(soon())
    pool.put_back(ended)
    ended.close()

    found = pool.take(soon())

    assert found.is_open
    assert server.connected == [ended, found]
    assert found is not ended
    assert pool.size == 1


def test_a_connection_that_ended_while_idle_is_never_connected_again_for_a_task():
    async def run() -> None:
        server = Server()
        pool = AsyncConnectionPool(Link, server.connect_async, **options(1))
        ended = await pool.take(soon())
        pool.put_back(ended)
        ended.close()

        found = await pool.take(soon())

        assert found.is_open
        assert server.connected == [ended, found]
        assert found is not ended
        assert pool.size == 1

    asyncio.run(run())


def test_an_idle_connection_is_used_before_a_new_one_is_made_for_one_that_ended():
    async def run() -> None:
        server = Server()
        pool = AsyncConnectionPool(Link, server.connect_async, **options(2))
        alive, ended = await pool.take(soon()), await pool.take(soon())
        pool.put_back(alive)
        pool.put_back(ended)
        ended.close()

        assert await pool.take(soon()) is alive
        assert server.connected == [alive, ended]
        assert pool.size == 1

    asyncio.run(run())


def test_a_task_keeps_its_turn_although_the_connection_it_was_given_has_ended():
    async def run() -> None:
        server = Server()
        pool = AsyncConnectionPool(Link, server.connect_async, **options(1))
        ended, served = await pool.take(soon()), list[int]()

        async def pass_through(number: int) -> None:
            mine = await pool.take(soon())
            served.append(number)
            pool.put_back(mine)

        running = []
        for number in range(3):
            running.append(asyncio.ensure_future(pass_through(number)))
            await asyncio.sleep(0)
        pool.put_back(ended)
        ended.close()  # before the first task runs
        await asyncio.gather(*running)

        assert served == [0, 1, 2]
        assert ended not in server.connected[1:]
        assert pool.size == 1

    asyncio.run(run())


def test_a_thread_keeps_its_turn_although_the_connection_it_was_given_is_too_old():
    pool = ConnectionPool(Link, connect, **{**options(1), "idle": 0.0})
    connection, served, running = pool.take(soon()), list[int](), []

    def pass_through(number: int) -> None:
        mine = pool.take(soon())
        served.append(number)
        pool.put_back(mine)

    for number in range(3):
        running.append(threading.Thread(target=pass_through, args=(number,)))
        running[-1].start()
        eventually(lambda: len(pool._waiting) == len(running), what="it waits")
    pool.put_back(connection)
    for one in running:
        one.join(PATIENCE)

    assert served == [0, 1, 2]
    assert pool.size == 1


def test_what_an_interrupt_took_away_is_missed_by_a_thread_that_waits():
    """A waiting thread notices a connection that an interrupt dropped without putting it back."""
    pool = thread_pool()
    connection: Link | None = pool.take(soon())
    served: list[Link] = []
    other = threading.Thread(target=lambda: served.append(pool.take(soon())))
    other.start()
    eventually(lambda: pool._waiting, what="the other waits")

    assert connection is not None
    del connection

    other.join(PATIENCE)
    assert len(served) == 1


@pytest.mark.parametrize("place", ["_next", "_serve"])
def test_a_thread_is_served_although_an_interrupt_struck_the_one_that_serves(place, monkeypatch):
    pool = thread_pool()
    connection = pool.take(soon())
    served: list[Link] = []
    other = threading.Thread(target=lambda: served.append(pool.take(soon())))
    other.start()
    eventually(lambda: pool._waiting, what="the other waits")
    step, interrupted = getattr(pool, place), threading.current_thread()

    def struck() -> Link | None:
        found: Link | None = step()
        if threading.current_thread() is interrupted:
            raise KeyboardInterrupt
        return found

    monkeypatch.setattr(pool, place, struck)

    with pytest.raises(KeyboardInterrupt):
        pool.put_back(connection)
    del connection

    other.join(PATIENCE)
    assert len(served) == 1
    assert not pool._waiting


def test_a_thread_whose_time_is_up_stands_in_nobodys_way():
    pool = thread_pool()
    connection = pool.take(soon())

    with pytest.raises(BackendUnavailable):
        pool.take(CLOCK.now() + 0.01)

    assert not pool._waiting
    pool.put_back(connection)
    assert pool.take(soon()) is connection


def test_a_task_whose_time_is_up_stands_in_nobodys_way():
    async def run() -> None:
        pool = task_pool()
        connection = await pool.take(soon())

        with pytest.raises(BackendUnavailable):
            await pool.take(CLOCK.now() + 0.01)

        assert not pool._waiting
        pool.put_back(connection)
        assert await pool.take(soon()) is connection

    asyncio.run(run())
