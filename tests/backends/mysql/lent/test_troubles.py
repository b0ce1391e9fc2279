"""Borrowed connections that are exhausted, dead or of another loop cause errors, but no leaks."""

from __future__ import annotations

import asyncio

import asyncmy
import pytest
import sqlalchemy
from backends.sql.lent import PATIENT, cancelled, interrupt_everywhere
from servers.mariadb import shared_server

from lockfast import AsyncLocks, BackendUnavailable, ConfigurationError, Locks
from lockfast_challenge.processes import eventually

ONE = {"pool_size": 1, "max_overflow": 0, "pool_timeout": 40}


def test_an_engine_that_is_used_up_is_waited_for_as_long_as_we_would(flavour, lend, name):
    lending = lend("engine", **ONE)
    taken = flavour.call(lending.client.connect)
    locks = flavour.adopted(lending.client, request_timeout=0.3)

    with pytest.raises(BackendUnavailable, match=r"no connection .*its pool had none to lend"):
        locks.lock(name).acquire()

    flavour.call(taken.close)
    eventually(lending.is_whole, what="whoever waited has given it back")
    flavour.adopted(lending.client, **PATIENT).lock(name).acquire().release()


def sessions(server) -> list[int]:
    rows = server.run("SELECT ID FROM information_schema.PROCESSLIST WHERE DB = 'test'")
    return [one[0] for one in rows]


def test_dead_connections_are_passed_over(flavour, lend, server, name):
    lending = lend("engine", **ONE)
    locks = flavour.adopted(lending.client, **PATIENT)
    locks.lock(name).acquire().release()
    eventually(lending.is_whole)
    for one in sessions(server):
        server.run("KILL %s", one)
    eventually(lambda: not sessions(server), what="they have ended")

    locks.lock(name).acquire(timeout=20).release()


def test_the_one_connection_is_dead(flavour, lend, server, name):
    connection = lend("connection").client
    locks = flavour.adopted(connection, **PATIENT)
    server.run("KILL %s", connection.thread_id())

    def is_told() -> bool:
        with pytest.raises(BackendUnavailable) as told:
            locks.lock(name).acquire()
        return "your connection is closed" in str(told.value)

    eventually(is_told, what="it is said what is wrong")


@pytest.mark.parametrize("flavour", ["async"], indirect=True)
def test_a_cancelled_acquire_costs_no_connection(flavour, lend, server, held):
    """However far the acquire got, its pending reply is read before the connection goes back."""
    lending = lend("engine", **ONE)
    locks = flavour.adopted(lending.client, **PATIENT)
    before = number(lending, flavour)

    for turns in range(0, 90, 6):
        flavour.call(cancelled, locks, held.name, turns)

    eventually(lending.is_whole, what="all is back")
    assert number(lending, flavour) == before


def number(lending, flavour) -> int:
    """Return the server's number for the engine's only connection."""
    handle = flavour.call(lending.client.connect)
    found = handle.sync_connection.connection.driver_connection.thread_id()
    flavour.call(handle.close)
    return int(found)


@pytest.mark.timeout(180)  # About 120 interrupts, each waited for.
def test_an_interrupt_anywhere_loses_no_connection():
    """An interrupt may strike anywhere between taking a connection and giving it back."""
    server = shared_server()
    server.run("CREATE DATABASE IF NOT EXISTS test")
    engine = sqlalchemy.create_engine(f"mysql+pymysql://root@{server.address}/test", pool_size=2)
    locks = Locks.from_client(engine, **PATIENT)
    locks.lock("door").acquire().release()

    interrupt_everywhere(
        lambda: locks.inspect("door"), is_whole=lambda: engine.pool.checkedout() == 0
    )

    locks.close()
    engine.dispose()


def test_a_connection_of_another_loop_is_refused():
    server = shared_server()
    server.run("CREATE DATABASE IF NOT EXISTS test")
    loop = asyncio.new_event_loop()

    async def use(connection: object) -> None:
        async with AsyncLocks.from_client(connection, **PATIENT) as locks:
            await locks.lock("door").acquire()

    async def connected() -> object:
        where = {"host": "127.0.0.1", "port": server.port, "user": "root", "database": "test"}
        return await asyncmy.connect(**where)

    connection = loop.run_until_complete(connected())
    with pytest.raises(ConfigurationError, match="belongs to another event loop"):
        asyncio.run(use(connection))
    loop.run_until_complete(connection.ensure_closed())
    loop.close()


@pytest.mark.parametrize("backend", ["mysql", "mariadb"])
def test_connections_that_a_function_makes_are_ours(flavour, connect, name, backend):
    """Connections made by a factory are kept while they are useful, and closed with the client."""
    made = []

    def sync_connect():
        made.append(connect())
        return made[-1]

    async def async_connect():
        made.append(await connect())
        return made[-1]

    how = sync_connect if flavour.name == "sync" else async_connect
    locks = flavour.by_factory(how, backend=backend, **PATIENT)
    for _ in range(3):
        locks.lock(name).acquire().release()
    assert len(made) == 1

    (locks.close if flavour.name == "sync" else locks.aclose)()

    assert not (made[0].open if flavour.name == "sync" else made[0]._transport)


def test_a_function_that_returns_something_else_is_told(flavour, name):
    locks = flavour.by_factory(dict, backend="mysql", **PATIENT)

    with pytest.raises(ConfigurationError, match=r"is needed, .* builtins\.dict"):
        locks.lock(name).acquire()
