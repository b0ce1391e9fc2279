"""Borrowed connections that are exhausted, dead or of another loop cause errors, but no leaks."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

import psycopg
import psycopg_pool
import pytest
from backends.sql.lent import PATIENT, AsyncLentPool, LentPool, cancelled, interrupt_everywhere
from servers.postgresql import shared_server

from lockfast import AsyncLocks, BackendUnavailable, ConfigurationError, Locks
from lockfast_challenge.processes import eventually

FULL = {
    "pool": {"min_size": 1, "max_size": 1},
    "engine": {"pool_size": 1, "max_overflow": 0, "pool_timeout": 40},
}


@pytest.mark.parametrize("kind", FULL)
def test_a_pool_that_is_used_up_is_waited_for_as_long_as_we_would(flavour, lend, name, kind):
    """The wait ends at our timeout, not the pool's, and no connection is taken afterwards."""
    lending = lend(kind, **FULL[kind])
    taken = flavour.call(getattr(lending.client, "getconn" if kind == "pool" else "connect"))
    locks = flavour.adopted(lending.client, request_timeout=0.3)
    started = flavour.clock.now()

    with pytest.raises(BackendUnavailable, match=r"no connection .*its pool had none to lend"):
        locks.lock(name).acquire()

    assert flavour.clock.now() - started < 20
    give_back = lending.client.putconn if kind == "pool" else type(taken).close
    flavour.call(give_back, taken)
    eventually(lending.is_whole, what="whoever waited has given it back")
    flavour.adopted(lending.client, **PATIENT).lock(name).acquire().release()


@pytest.mark.parametrize("kind", FULL)
def test_dead_connections_are_passed_over(flavour, lend, server, name, kind):
    """An acquire succeeds even if the server has ended all the sessions of the pool."""
    lending = lend(kind)
    locks = flavour.adopted(lending.client, **PATIENT)
    locks.lock(name).acquire().release()
    eventually(lending.is_whole)

    assert server.terminate("application_name = ''") >= 1

    locks.lock(name).acquire().release()


def test_a_connection_that_was_closed_before_is_refused_in_a_sentence(flavour, lend):
    lending = lend("connection")
    flavour.call(lending.client.close)

    with pytest.raises(ConfigurationError, match="the connection is closed"):
        flavour.adopted(lending.client)


def test_the_one_connection_is_dead(flavour, lend, server, name):
    lending = lend("connection")
    locks = flavour.adopted(lending.client, **PATIENT)
    server.terminate(f"pid = {lending.client.info.backend_pid}")

    def is_told() -> bool:
        with pytest.raises(BackendUnavailable) as told:
            locks.lock(name).acquire()
        return "your connection is closed" in str(told.value)

    eventually(is_told, what="it is said what is wrong")


def test_a_pool_that_its_owner_has_closed_is_told_as_that(flavour, lend, name):
    """The error says that the pool is closed, and not that it needs more room."""
    lending = lend("pool")
    locks = flavour.adopted(lending.client, **PATIENT)
    locks.lock(name).acquire().release()
    eventually(lending.is_whole)
    flavour.call(lending.client.close)

    with pytest.raises(BackendUnavailable, match=r"closed.*open that pool") as told:
        locks.lock(name).acquire()

    assert "more room" not in str(told.value)


def test_a_pool_that_is_not_open_is_told(flavour, server, name):
    is_sync = flavour.name == "sync"
    kind = psycopg_pool.ConnectionPool if is_sync else psycopg_pool.AsyncConnectionPool
    locks = flavour.adopted(flavour.call(kind, server.url(), open=False), **PATIENT)

    with pytest.raises(BackendUnavailable, match=r"no connection was lent \(.*not open"):
        locks.lock(name).acquire()


@pytest.mark.parametrize("flavour", ["async"], indirect=True)
def test_a_cancelled_acquire_costs_no_connection(lend, flavour, held):
    """However far the acquire got, its pending reply is read before the connection goes back."""
    lending = lend("pool", min_size=2, max_size=2)
    locks = flavour.adopted(lending.client, **PATIENT)
    locks.lock("warm").acquire().release()
    eventually(lending.is_whole)
    before = sessions(lending, flavour)

    for turns in range(0, 60, 3):
        flavour.call(cancelled, locks, held.name, turns)

    flavour.call(locks._inner._client.backend._inbox.stop)
    eventually(lending.is_whole, what="all is back")
    assert sessions(lending, flavour) == before


def sessions(lending, flavour) -> set[int]:
    """Return the server's numbers for all connections in a pool of two."""
    found = [flavour.call(lending.client.getconn) for _ in range(2)]
    numbers = {one.info.backend_pid for one in found}
    for one in found:
        flavour.call(lending.client.putconn, one)
    return numbers


@pytest.mark.timeout(180)  # About 120 interrupts, each waited for.
def test_an_interrupt_anywhere_loses_no_connection(monkeypatch):
    """Wherever the interrupt strikes, the connection goes back, and closing need not wait."""
    monkeypatch.setattr("lockfast.backends.sql._sync.borrowed.CLOSE_WITHIN_SECONDS", 3600.0)
    with LentPool(shared_server().url(), max_size=2) as pool:
        locks = Locks.from_client(pool, **PATIENT)
        locks.lock("door").acquire().release()

        interrupt_everywhere(lambda: locks.inspect("door"), is_whole=lambda: pool.lent == 0)

        locks.close()


def test_a_pool_of_another_loop_is_refused_or_serves():
    """A psycopg connection belongs to no loop, but a task that waits for a connection does."""
    url = shared_server().url()

    async def use(pool: AsyncLentPool) -> None:
        async with AsyncLocks.from_client(pool, request_timeout=1.0) as locks:
            await locks.lock("door").acquire()

    async def fill(pool: AsyncLentPool) -> None:
        await pool.open()
        await pool.getconn()

    pool = AsyncLentPool(url, max_size=1)
    with ExitStack() as stack:
        loop = asyncio.new_event_loop()
        stack.callback(loop.close)
        loop.run_until_complete(fill(pool))
        with pytest.raises((ConfigurationError, BackendUnavailable), match=r"loop|none to lend"):
            asyncio.run(asyncio.wait_for(use(pool), 30))
        pool.lent = 0
        loop.run_until_complete(pool.close())


@pytest.mark.parametrize("kind", ["pool", "engine", "connection"])
def test_a_forked_child_leaves_what_is_the_parents(lent_puppet, server, name, kind):
    """The child gets an error that says to connect again; the parent goes on as before."""
    parent = lent_puppet(kind, server.url())
    parent.ask("acquire", name)

    child = parent.fork()
    with pytest.raises(ConfigurationError, match="before this process was forked"):
        child.ask("acquire", f"{name}/child")
    child.ask("leave")

    parent.ask("check", name)
    parent.ask("release", name)
    assert parent.ask("lent") == 0


def test_a_forked_child_may_use_an_engine_that_it_has_disposed_of(lent_puppet, server, name):
    parent = lent_puppet("engine", server.url())
    parent.ask("acquire", name)

    child = parent.fork()
    child.ask("dispose")
    child.ask("acquire", f"{name}/child")
    child.ask("release", f"{name}/child")
    child.ask("leave")

    parent.ask("release", name)
    assert parent.ask("lent") == 0


def test_connections_that_a_function_makes_are_ours(flavour, server, name):
    """Connections made by a factory are kept while they are useful, and closed with the client."""
    made = []
    kind = psycopg.Connection if flavour.name == "sync" else psycopg.AsyncConnection

    def sync_connect():
        made.append(kind.connect(server.url()))
        return made[-1]

    async def async_connect():
        made.append(await kind.connect(server.url()))
        return made[-1]

    connect = sync_connect if flavour.name == "sync" else async_connect
    locks = flavour.by_factory(connect, backend="postgresql", **PATIENT)
    for _ in range(3):
        locks.lock(name).acquire().release()
    assert len(made) == 1

    (locks.close if flavour.name == "sync" else locks.aclose)()

    assert made[0].closed


def test_a_function_that_fails_is_told_as_a_server_that_does_not_answer(flavour, name):
    def connect():
        return psycopg.connect("postgresql://127.0.0.1:1/nothing")

    locks = flavour.by_factory(connect, backend="postgresql", **PATIENT)

    with pytest.raises(BackendUnavailable, match="nothing listens"):
        locks.lock(name).acquire()


def test_a_function_that_returns_something_else_is_told(flavour, name):
    locks = flavour.by_factory(dict, backend="postgresql", **PATIENT)

    with pytest.raises(ConfigurationError, match=r"psycopg 3 is needed, .* builtins\.dict"):
        locks.lock(name).acquire()


def test_a_function_of_the_other_flavour_is_refused():
    async def connect():
        raise AssertionError("it is not called")

    with pytest.raises(ConfigurationError, match=r"AsyncLocks\.from_factory"):
        Locks.from_factory(connect, backend="postgresql")


def test_a_store_that_takes_no_function_is_refused_with_those_that_do():
    for backend in ("redis", "nothing"):
        with pytest.raises(ConfigurationError, match="accepted: mariadb, mysql, postgres, postg"):
            Locks.from_factory(dict, backend=backend)
    with pytest.raises(TypeError, match="a factory is a function"):
        Locks.from_factory("postgresql://", backend="postgresql")  # type: ignore[arg-type]
