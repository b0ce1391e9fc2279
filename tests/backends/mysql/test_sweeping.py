"""Idle names are removed after a day; a name in use is never removed, even in a race."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import pytest
from backends.mysql import each_server
from backends.sql.sweeping_laws import ALL, Names, SweepingLaws, claim

from lockfast.backends.mysql.statements import MysqlReaper, MysqlStatements
from lockfast.backends.sql._async import maintenance as async_maintenance
from lockfast.backends.sql._async import transport as async_wire
from lockfast.backends.sql._sync import maintenance as sync_maintenance
from lockfast.backends.sql._sync import transport as sync_wire
from lockfast.backends.sql.steps import Query
from lockfast_challenge.processes import eventually

server = each_server.server


@pytest.fixture
def names(transport, server, tables) -> Names:
    statements = MysqlStatements(tables, namespace="test")
    run, reaper = partial(server.run, database="test"), partial(MysqlReaper, tables)
    return Names(transport, statements, run=run, key="`key`", mark="%s", reaper=reaper)


@pytest.fixture
def elsewhere(wire_to) -> Any:
    return wire_to("mariadb://root@127.0.0.1:1/test")


class TestSweeping(SweepingLaws):
    """The tests for every SQL server."""


def test_a_client_sweeps_beside_its_own_calls(flavour, server, names, monkeypatch) -> None:
    """A release does not pay for a sweep; the client sweeps when it has time."""
    for module in (async_wire, sync_wire):
        monkeypatch.setattr(module, "CONNECTION_IDLE_SECONDS", 0.5)
    for module in (async_maintenance, sync_maintenance):
        monkeypatch.setattr(module, "REAPER_BUSY_SECONDS", 0.5)
    names.old_one()
    locks = flavour.locks(server.url(), table=names.tables.table, namespace="test")

    locks.lock("other").acquire(timeout=20).release()

    eventually(lambda: names.known() == {"other"}, within=50, what="the idle name is swept")


# -- at the same moment --------------------------------------------------------------------


def test_a_name_that_somebody_is_taking_is_left_alone(names, server) -> None:
    """The reaper never waits for a lock: otherwise the next caller would wait behind the reaper."""
    names.old_one()
    with server.connect("test", autocommit=False) as taker, taker.cursor() as cursor:
        cursor.execute(f"UPDATE {names.tables.door} SET id = 'taker', until = {time.time() + 3600}")
        assert names.reap() == 0
        taker.commit()

    assert names.reap() == 0
    assert names.holders() == ["taker"]


def test_a_name_that_was_taken_after_the_broom_looked_stays(names, transport) -> None:
    """The reaper does not rely on what it read before it locked the name."""
    names.old_one()
    reaper = MysqlReaper(names.tables)
    gone, between = reaper.reaped(transport.run(reaper.request()))
    assert (gone, between is None) == (0, False)
    names.run(f"UPDATE {names.tables.door} SET id = 'taker', until = {time.time() + 60}")

    assert transport.transact(partial(reaper.lines, between)) == 0
    assert names.holders() == ["taker"]


def test_who_has_just_been_let_in_beside_the_dead_is_seen(names, transport) -> None:
    """The reaper locks the name first, so its next statement sees the new entry."""
    names.old_one()
    names.stands("door", "buried", standing=4)

    def steps():
        inner = MysqlReaper(names.tables).lines(ALL)
        locked = yield next(inner)
        # Pretend that a client joined before us; no client can join now, since the name is locked.
        until = time.time() + 60
        yield [Query(f"UPDATE {names.tables.place} SET standing = 1, until = {until}")]
        return (yield from resume(inner, locked))

    assert transport.transact(steps) == 0
    assert names.known() == {"door"}


def resume(steps, answers):
    """Send these answers to steps that were started, and go on with the steps."""
    try:
        asked = steps.send(answers)
        while True:
            asked = steps.send((yield asked))
    except StopIteration as end:
        return end.value


def test_who_comes_while_the_name_goes_gets_it_and_a_larger_token(names, transport) -> None:
    last = names.old_one()
    mine = claim("taker", "door")
    asked = []

    def steps():
        gone = yield from MysqlReaper(names.tables).lines(ALL)
        asked.append(transport.flavour.start(transport.run, names.statements.take_new(mine)))
        yield [Query("SELECT SLEEP(0.2)")]
        return gone

    assert transport.transact(steps) == 1
    token = names.statements.token_in(asked[0].result(20))
    assert token is not None
    assert token > last
    assert names.holders() == ["taker"]
