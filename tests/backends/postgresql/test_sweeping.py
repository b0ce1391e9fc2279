"""Idle names are removed after a day; a name in use is never removed, even in a race."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import pytest
from backends.sql.sweeping_laws import ALL, Names, SweepingLaws, claim

from lockfast.backends.postgresql.statements import PostgresqlReaper, PostgresqlStatements
from lockfast.backends.sql.steps import Query
from lockfast_challenge.processes import eventually


@pytest.fixture
def names(transport, server, tables) -> Names:
    statements = PostgresqlStatements(tables, namespace="test")
    reaper = partial(PostgresqlReaper, tables)
    return Names(transport, statements, run=server.run, key="key", mark="$1", reaper=reaper)


@pytest.fixture
def elsewhere(wire_to) -> Any:
    return wire_to("postgresql://postgres@127.0.0.1:1/postgres")


class TestSweeping(SweepingLaws):
    """The tests for every SQL server."""


# -- at the same moment --------------------------------------------------------------------


def as_psycopg(ask: Any) -> tuple[str, list[object]]:
    return ask.statement.replace("$1", "%s").replace("$2", "%s"), list(ask.values)


def waiting_for(server: Any, pid: int) -> bool:
    """Return whether another session waits for a lock that the session `pid` holds."""
    [[count]] = server.run(
        f"SELECT count(*) FROM pg_stat_activity WHERE {pid} = ANY (pg_blocking_pids(pid))"
    )
    return bool(count)


def test_a_name_that_somebody_is_taking_is_left_alone(names, server) -> None:
    """The reaper never waits for a lock: otherwise the next caller would wait behind the reaper."""
    names.old_one()
    with server.connect() as taker, taker.transaction():
        taker.execute(f"UPDATE {names.tables.door} SET id = 'taker', until = {time.time() + 3600}")
        assert names.reap() == 0

    assert names.reap() == 0
    assert names.holders() == ["taker"]


@pytest.mark.parametrize("how", ["take", "take_new"])
def test_who_comes_while_the_name_goes_gets_it_and_a_larger_token(
    names, transport, server, how
) -> None:
    last = names.old_one()
    request = PostgresqlReaper(names.tables).request()
    mine = claim("taker", "door")
    with server.connect() as name_reaper, name_reaper.transaction():
        pid = name_reaper.info.backend_pid
        [(_, _, gone, _)] = name_reaper.execute(*as_psycopg(request)).fetchall()
        asked = transport.flavour.start(transport.run, getattr(names.statements, how)(mine))
        eventually(lambda: waiting_for(server, pid))

    answer = asked.result()
    if how == "take":
        # The take is refused as for an unknown name, so request the name again, as a new name.
        assert answer == []
        answer = transport.run(names.statements.take_new(mine))
    assert gone == 1
    assert answer[0][0] > last
    assert names.holders() == ["taker"]


def test_a_name_that_was_taken_after_the_broom_began_stays(names, transport, server) -> None:
    """The reaper does not rely on what it read before it locked the name."""
    names.old_one()
    request = PostgresqlReaper(names.tables).request()
    # Make the reaper wait between reading and locking; nothing else would delay it for long enough.
    statement = request.statement.replace(
        "SELECT seen.key FROM seen", "SELECT seen.key FROM seen, gate", 1
    ).replace(
        "idle AS MATERIALIZED",
        "gate AS MATERIALIZED (SELECT pg_advisory_xact_lock(4711)), idle AS MATERIALIZED",
        1,
    )
    with server.connect() as gate:
        gate.execute("SELECT pg_advisory_lock(4711)")
        pid = gate.info.backend_pid
        asked = transport.flavour.start(transport.ask, statement, *request.values)
        eventually(lambda: waiting_for(server, pid))
        names.run(f"UPDATE {names.tables.door} SET id = 'taker', until = {time.time() + 60}")
        gate.execute("SELECT pg_advisory_unlock(4711)")

    [(seen, _, gone, _)] = asked.result()
    assert (seen, gone) == (1, 0)
    assert names.holders() == ["taker"]


def test_a_dead_line_that_somebody_is_joining_is_left_alone(names, transport, server) -> None:
    names.old_one()
    names.stands("door", "buried", standing=4)
    with server.connect() as other, other.transaction():
        other.execute(f"SELECT FROM {names.tables.door} FOR UPDATE")
        assert transport.transact(partial(PostgresqlReaper(names.tables).lines, ALL)) == 0

    assert names.known() == {"door"}


def test_who_has_just_been_let_in_beside_the_dead_is_seen(names, transport, server) -> None:
    """The reaper locks the name first, so its next statement sees the new entry."""
    names.old_one()
    names.stands("door", "buried", standing=4)
    gate = "SELECT pg_advisory_xact_lock(4712)"

    def steps():
        yield [Query(gate)]
        return (yield from PostgresqlReaper(names.tables).lines(ALL))

    with server.connect() as other:
        other.execute("SELECT pg_advisory_lock(4712)")
        asked = transport.flavour.start(transport.transact, steps)
        eventually(lambda: waiting_for(server, other.info.backend_pid))
        names.stands("door", "joined", standing=1, until=time.time() + 60)
        other.execute("SELECT pg_advisory_unlock(4712)")

    assert asked.result() == 0
    assert names.known() == {"door"}


def test_who_comes_while_a_dead_line_goes_begins_a_new_one(names, transport, server) -> None:
    last = names.old_one()
    names.stands("door", "buried", standing=4)
    steps = PostgresqlReaper(names.tables).lines(ALL)
    with server.connect() as name_reaper, name_reaper.transaction():
        pid = name_reaper.info.backend_pid
        [lock] = next(steps)
        locked = name_reaper.execute(*as_psycopg(lock)).fetchall()
        take = names.statements.take_new(claim("taker", "door"))
        asked = transport.flavour.start(transport.run, take)
        eventually(lambda: waiting_for(server, pid))
        [reap] = steps.send([locked])
        assert name_reaper.execute(*as_psycopg(reap)).fetchall() == [(1,)]

    [(token,)] = asked.result()
    assert token > last
    assert names.holders() == ["taker"]
