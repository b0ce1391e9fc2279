"""The pools and engines of an application, made for the tests of borrowed connections."""

from __future__ import annotations

import asyncio
import gc
import itertools
from collections.abc import Callable
from typing import Any

import psycopg_pool
import sqlalchemy
from both_flavours import Flavour, number_waiting
from interrupting import interrupt, places
from sqlalchemy.ext.asyncio import create_async_engine

from lockfast_challenge.processes import eventually

PATIENT = {"request_timeout": 20.0}
"""Options for clients whose own timeout is not under test."""


class AsyncLentPool(psycopg_pool.AsyncConnectionPool):
    """A pool that counts lent connections.

    The pool opens on first use, because a constructor cannot await.
    """

    def __init__(self, url: str, **options: Any) -> None:
        super().__init__(url, open=False, **{"min_size": 1, "max_size": 4, **options})
        self.lent = 0

    async def getconn(self, timeout: float | None = None) -> Any:
        await self.open()
        connection = await super().getconn(timeout)
        self.lent += 1
        return connection

    async def putconn(self, connection: Any) -> None:
        self.lent -= 1
        await super().putconn(connection)

    async def aclose(self) -> None:
        """Check that every connection came back, and close the pool."""
        assert self.lent == 0
        await self.close()


class LentPool(psycopg_pool.ConnectionPool):
    """A pool for threads that counts lent connections, and opens on first use."""

    def __init__(self, url: str, **options: Any) -> None:
        super().__init__(url, open=False, **{"min_size": 1, "max_size": 4, **options})
        self.lent = 0

    def getconn(self, timeout: float | None = None) -> Any:
        self.open()
        connection = super().getconn(timeout)
        with self._lock:
            self.lent += 1
        return connection

    def putconn(self, connection: Any) -> None:
        with self._lock:
            self.lent -= 1
        super().putconn(connection)

    def close(self, timeout: float = 5.0) -> None:
        """Check that every connection came back, and close the pool."""
        assert self.lent == 0
        super().close(timeout)


class LentEngine:
    """An engine that is closed when the test ends."""

    def __init__(self, url: str, *, is_asyncio: bool, **options: Any) -> None:
        make = create_async_engine if is_asyncio else sqlalchemy.create_engine
        self.engine = make(url, **options)
        if not is_asyncio:
            # Connect once, as an application has: the first connection sends queries that are not
            # under test.
            self.engine.connect().close()

    @property
    def lent(self) -> int:
        return int(self.engine.pool.checkedout())

    def close(self) -> None:
        """Check that every connection came back, and close the engine."""
        assert self.lent == 0
        self.engine.dispose()

    async def aclose(self) -> None:
        """Check that every connection came back, and close the asyncio engine."""
        assert self.lent == 0
        await self.engine.dispose()


class Lending:
    """An application's client that lends connections, with blocking calls in both flavours.

    The client is closed after the locks that use it.
    """

    def __init__(self, flavour: Flavour, client: Any, *, lent: Callable[[], int]) -> None:
        self.client = client
        self.lent = lent
        self._flavour = flavour
        flavour.close_after_clients(self)

    def is_whole(self) -> bool:
        """Return whether no connection is lent at the moment."""
        return self.lent() == 0

    def close(self) -> None:
        """Check that every connection came back, and close the client."""
        eventually(self.is_whole, what="all that was lent is back")
        client = self.client
        # An engine is disposed of; an asyncmy connection says goodbye with `ensure_closed`.
        ends = ("dispose", "ensure_closed", "close")
        self._flavour.call(next(getattr(client, one) for one in ends if hasattr(client, one)))

    aclose = close


def lent_pool(flavour: Flavour, url: str, **options: Any) -> Lending:
    """Return a psycopg pool."""
    kind = LentPool if flavour.name == "sync" else AsyncLentPool
    pool = flavour.call(kind, url, **options)
    flavour.call(pool.open)
    return Lending(flavour, pool, lent=lambda: pool.lent)


def lent_engine(flavour: Flavour, url: str, **options: Any) -> Lending:
    """Return an engine for a SQLAlchemy URL."""
    make = sqlalchemy.create_engine if flavour.name == "sync" else create_async_engine
    engine = flavour.call(make, url, **options)
    return Lending(flavour, engine, lent=engine.pool.checkedout)


def lent_connection(flavour: Flavour, connect: Callable[[], Any]) -> Lending:
    """Return a single connection that is lent to the locks."""
    connection = flavour.call(connect)
    lock = getattr(connection, "lock", None)
    return Lending(flavour, connection, lent=lambda: int(lock is not None and lock.locked()))


async def cancelled(locks: Any, name: str, turns: int) -> None:
    """Cancel an acquire after this many turns of the loop."""
    task = asyncio.ensure_future(locks._inner.lock(name).acquire())
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])


def interrupt_everywhere(action: Callable[[], object], *, is_whole: Callable[[], bool]) -> None:
    """Interrupt the action at one place after another, and check that it gives everything back.

    The first 60 places are all tried. The hundreds of later places, which lie in a driver and are
    all alike, are only sampled.
    """
    looks = itertools.count(1)

    def is_whole_at_last() -> bool:
        # Objects that an interrupt left behind may form a cycle, which only the garbage collector
        # frees; that is rare.
        return is_whole() or (next(looks) % 4 == 0 and gc.collect() >= 0 and is_whole())

    gc.collect()
    gc.disable()  # it runs foreign callbacks, which are not under test
    try:
        count = places(action)
        for place in [*range(60), *range(60, count, max(1, count // 60))]:
            interrupt(action, at=place)
            eventually(is_whole_at_last, what="it is given back")
    finally:
        gc.enable()


class LendingLaws:
    """Laws for every kind of lending client.

    The fixture `lending` is a client of each kind, and `held` is a lease of another client.
    """

    def test_a_lock_is_taken_and_given_back(self, flavour, lending, name):
        locks = flavour.adopted(lending.client, **PATIENT)

        lock = locks.lock(name)
        lease = lock.acquire(timeout=10)
        lease.check()
        lease.release()

        assert not lock.locked()
        eventually(lending.is_whole, what="the connection is back")

    def test_who_waits_gets_it(self, flavour, lending, held):
        """A waiter on a lent connection gets the lock when a client of another kind releases it."""
        locks = flavour.adopted(lending.client, **PATIENT)
        waiting = flavour.start(locks.lock(held.name).acquire, timeout=60)
        eventually(lambda: number_waiting(locks), what="it was told to wait")

        held.release()

        assert waiting.result().token > held.token
