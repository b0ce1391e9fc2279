"""Idle names go after a day; none that is in use does, whoever comes at the same moment."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import pytest
from eventually import eventually

from holdfast.backends.postgresql.schema import Tables
from holdfast.backends.postgresql.statements import Statements
from holdfast.backends.postgresql.sweeping import PostgresqlBroom
from holdfast.backends.sql import sweeping
from holdfast.backends.sql._async.sweeping import AsyncSweeper
from holdfast.backends.sql._sync.sweeping import Sweeper
from holdfast.backends.sql.steps import Ask
from holdfast.core.naming import name_of, storage_key
from holdfast.model import Claim

DAY = 24 * 3600.0
ALL = (b"", b"\xff")


def claim(claim_id: str, name: str, **more: Any) -> Claim:
    return Claim(claim_id, name, "client", "{}", 1, 1, more.pop("ttl", 10.0), **more)


class Names:
    """Names in tables of the test's own, which are used, get older and are swept."""

    def __init__(self, wire: Any, server: Any, tables: Tables) -> None:
        self.wire = wire
        self.tables = tables
        self.statements = Statements(tables, namespace="test")
        self.run = server.run
        kind = Sweeper if wire.flavour.name == "sync" else AsyncSweeper
        self._sweeper = wire.flavour.call(kind, wire.inner, PostgresqlBroom(tables))

    def take(self, name: str, **options: Any) -> int:
        """Take a name, and return the token."""
        [(token,)] = self.wire.run(self.statements.take_new(claim(name, name, **options)))
        return int(token)

    def use(self, *names: str) -> None:
        """Take names and give them back."""
        for name in names:
            self.take(name)
            assert self.wire.run(self.statements.release(claim(name, name)))

    def age(self, seconds: float) -> None:
        """Let it be later than it was: all that was done, was done longer ago."""
        self.run(
            f"UPDATE {self.tables.door} SET last_token = last_token - {int(seconds * 1e6)},"
            f" token = token - {int(seconds * 1e6)}, since = since - {seconds},"
            f" until = CASE until WHEN 0 THEN 0 ELSE until - {seconds} END"
        )

    def old_one(self) -> int:
        """Have a name that may be swept, and return its last token."""
        self.use("door")
        self.age(DAY + 60)
        [[token]] = self.run(f"SELECT last_token FROM {self.tables.door}")
        return int(token)

    def stands(self, name: str, claim_id: str, *, standing: int, until: float = 0.0) -> None:
        """Let another stand beside the record."""
        key = storage_key("test", name)
        self.run(
            f"INSERT INTO {self.tables.place}"
            f" SELECT %s, count(*) + 1, %s, 'client', '{{}}', NULL, 1, 10, 0, 0, %s, %s, 0, 0, ''"
            f" FROM {self.tables.place}",
            *(key, claim_id, standing, until),
        )
        self.run(f"UPDATE {self.tables.door} SET crowd = crowd + 1 WHERE key = %s", key)

    def sweep(self) -> int:
        """Sweep a few rows; return how many names went."""
        flavour = self.wire.flavour
        flavour.call(self._sweeper.count, sweeping.SWEEP_EVERY)
        return int(flavour.call(self._sweeper.sweep, deadline=flavour.clock.now() + 20))

    def known(self) -> set[str]:
        """Return the names that are there."""
        rows = self.run(f"SELECT key FROM {self.tables.door}")
        return {name_of(bytes(key)) for (key,) in rows}

    def holders(self) -> list[str]:
        """Return who holds each of them."""
        return [one for (one,) in self.run(f"SELECT id FROM {self.tables.door}")]


@pytest.fixture
def names(wire, server, tables) -> Names:
    return Names(wire, server, tables)


def test_idle_names_go_after_a_day_and_not_before(names) -> None:
    names.use("old")
    names.age(DAY - 60)
    assert names.sweep() == 0

    names.age(120)
    names.use("young")

    assert names.sweep() == 1
    assert names.known() == {"young"}


def test_the_next_token_of_a_swept_name_is_larger(names) -> None:
    last = names.old_one()
    assert names.sweep() == 1

    assert names.take("door") > last


def test_who_holds_or_waits_is_in_use_however_long(names) -> None:
    names.take("held", ttl=7 * DAY)
    names.take("closed afterwards", lock_delay=7 * DAY)
    names.take("held for long", min_hold=7 * DAY)
    names.use("with another inside")
    names.stands("with another inside", "holder", standing=0, until=time.time() + 7 * DAY)
    names.stands("with another inside", "waiter", standing=3)
    names.age(DAY + 3600)

    assert names.sweep() == 0


def test_a_holder_that_died_more_than_a_day_ago_is_not_in_use(names) -> None:
    names.take("left by the dead")
    names.age(DAY - 60)
    assert names.sweep() == 0

    names.age(120)

    assert names.sweep() == 1
    assert names.known() == set()


def test_whom_death_left_in_line_goes_with_the_name(names) -> None:
    names.use("line")
    names.stands("line", "let in, and dead", standing=1, until=time.time() - DAY - 60)
    names.stands("line", "dead behind it", standing=3)
    names.stands("line", "buried", standing=4, until=time.time() - DAY - 60)
    names.age(DAY + 60)

    assert names.sweep() == 1
    assert names.known() == set()
    assert names.run(f"SELECT count(*) FROM {names.tables.place}") == [(0,)]


def test_tokens_that_are_ahead_of_the_clock_are_not_forgotten(names) -> None:
    """The clock was set back: by it alone they could be given again."""
    names.use("door")
    names.age(-DAY)

    assert names.sweep() == 0


def test_it_is_done_a_few_at_a_time(names, monkeypatch) -> None:
    monkeypatch.setattr(sweeping, "SWEEP_ROWS", 4)
    names.use(*(f"name {i}" for i in range(10)))
    names.age(DAY + 60)

    assert [names.sweep() for _ in range(4)] == [4, 4, 2, 0]


def test_it_is_done_now_and_then(tables) -> None:
    broom = PostgresqlBroom(tables)

    due = [broom.is_due() for _ in range(sweeping.SWEEP_EVERY + 1)]

    assert due == [True, *[False] * (sweeping.SWEEP_EVERY - 1), True]


def test_it_goes_on_behind_what_is_in_use(names, monkeypatch) -> None:
    monkeypatch.setattr(sweeping, "SWEEP_ROWS", 4)
    for i in range(10):
        names.take(f"held {i}", ttl=7 * DAY)
    names.use("idle")
    names.age(DAY + 60)

    assert sum(names.sweep() for _ in range(4)) == 1
    assert len(names.known()) == 10


# -- at the same moment --------------------------------------------------------------------


def as_psycopg(ask: Any) -> tuple[str, list[object]]:
    return ask.statement.replace("$1", "%s").replace("$2", "%s"), list(ask.values)


def waiting_for(server: Any, pid: int) -> bool:
    """Whether anybody waits for what this session has locked."""
    [[count]] = server.run(
        f"SELECT count(*) FROM pg_stat_activity WHERE {pid} = ANY (pg_blocking_pids(pid))"
    )
    return bool(count)


def test_a_name_that_somebody_is_taking_is_left_alone(names, server) -> None:
    """The broom waits for nobody: whoever came next would wait behind it."""
    names.old_one()
    with server.connect() as taker, taker.transaction():
        taker.execute(f"UPDATE {names.tables.door} SET id = 'taker', until = {time.time() + 3600}")
        assert names.sweep() == 0

    assert names.sweep() == 0
    assert names.holders() == ["taker"]


@pytest.mark.parametrize("how", ["take", "take_new"])
def test_who_comes_while_the_name_goes_gets_it_and_a_larger_token(names, wire, server, how) -> None:
    last = names.old_one()
    request = PostgresqlBroom(names.tables).request()
    mine = claim("taker", "door")
    with server.connect() as sweeper, sweeper.transaction():
        pid = sweeper.info.backend_pid
        [(_, _, gone, _)] = sweeper.execute(*as_psycopg(request)).fetchall()
        asked = wire.flavour.start(wire.run, getattr(names.statements, how)(mine))
        eventually(lambda: waiting_for(server, pid))

    answer = asked.result()
    if how == "take":
        # Refused as for an unknown name: it is asked for once more, as a new one.
        assert answer == []
        answer = wire.run(names.statements.take_new(mine))
    assert gone == 1
    assert answer[0][0] > last
    assert names.holders() == ["taker"]


def test_a_name_that_was_taken_after_the_broom_began_stays(names, wire, server) -> None:
    """What it saw when it began is not what it goes by."""
    names.old_one()
    request = PostgresqlBroom(names.tables).request()
    # Made to wait between looking and locking, where nothing else stops it for long enough.
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
        asked = wire.flavour.start(wire.ask, statement, *request.values)
        eventually(lambda: waiting_for(server, pid))
        names.run(f"UPDATE {names.tables.door} SET id = 'taker', until = {time.time() + 60}")
        gate.execute("SELECT pg_advisory_unlock(4711)")

    [(seen, _, gone, _)] = asked.result()
    assert (seen, gone) == (1, 0)
    assert names.holders() == ["taker"]


def test_a_dead_line_that_somebody_is_joining_is_left_alone(names, wire, server) -> None:
    names.old_one()
    names.stands("door", "buried", standing=4)
    with server.connect() as other, other.transaction():
        other.execute(f"SELECT FROM {names.tables.door} FOR UPDATE")
        assert wire.transact(partial(PostgresqlBroom(names.tables).lines, ALL)) == 0

    assert names.known() == {"door"}


def test_who_has_just_been_let_in_beside_the_dead_is_seen(names, wire, server) -> None:
    """By the statement after the one that locks the name."""
    names.old_one()
    names.stands("door", "buried", standing=4)
    gate = "SELECT pg_advisory_xact_lock(4712)"

    def steps():
        yield [Ask(gate)]
        return (yield from PostgresqlBroom(names.tables).lines(ALL))

    with server.connect() as other:
        other.execute("SELECT pg_advisory_lock(4712)")
        asked = wire.flavour.start(wire.transact, steps)
        eventually(lambda: waiting_for(server, other.info.backend_pid))
        names.stands("door", "joined", standing=1, until=time.time() + 60)
        other.execute("SELECT pg_advisory_unlock(4712)")

    assert asked.result() == 0
    assert names.known() == {"door"}


def test_who_comes_while_a_dead_line_goes_begins_a_new_one(names, wire, server) -> None:
    last = names.old_one()
    names.stands("door", "buried", standing=4)
    steps = PostgresqlBroom(names.tables).lines(ALL)
    with server.connect() as sweeper, sweeper.transaction():
        pid = sweeper.info.backend_pid
        [lock] = next(steps)
        locked = sweeper.execute(*as_psycopg(lock)).fetchall()
        take = names.statements.take_new(claim("taker", "door"))
        asked = wire.flavour.start(wire.run, take)
        eventually(lambda: waiting_for(server, pid))
        [sweep] = steps.send([locked])
        assert sweeper.execute(*as_psycopg(sweep)).fetchall() == [(1,)]

    [(token,)] = asked.result()
    assert token > last
    assert names.holders() == ["taker"]


def test_takers_and_brooms_at_once_lose_no_hold_and_no_token(wire_to, server, tables) -> None:
    """Names as old as can be, taken, given back, made old and swept, all at once."""
    statements = Statements(tables, namespace="test")
    wires = [wire_to(server.url()) for _ in range(3)]
    done = False

    def use(number: int) -> int:
        wire, last, taken = wires[number], dict.fromkeys(("a", "b"), 0), 0
        for turn in range(60):
            for name in last:
                mine = claim(f"{number}.{turn}", f"{number}.{name}")
                token = wire.run(statements.take(mine)) or wire.run(statements.take_new(mine))
                assert token, "it is ours alone, and was given back"
                assert token[0][0] > last[name]
                assert wire.run(statements.release(mine)), "a hold was swept"
                key = storage_key("test", mine.name)
                old = f"UPDATE {tables.door} SET last_token = 0 WHERE key = $1 AND id = ''"
                wire.ask(old, key)
                last[name], taken = token[0][0], taken + 1
        return taken

    def sweep() -> int:
        gone, broom = 0, PostgresqlBroom(tables)
        while not done:
            gone += broom.swept(wires[2].run(broom.request())).gone
        return gone

    flavour = wires[0].flavour
    brooms = [flavour.start(sweep) for _ in range(2)]
    users = [flavour.start(use, number) for number in range(2)]
    try:
        assert [one.result() for one in users] == [120, 120]
    finally:
        done = True
    assert sum(one.result() for one in brooms) > 0


def test_a_store_that_is_away_does_no_harm(wire_to, tables) -> None:
    wire = wire_to("postgresql://postgres@127.0.0.1:1/postgres")
    kind = Sweeper if wire.flavour.name == "sync" else AsyncSweeper
    sweeper = wire.flavour.call(kind, wire.inner, PostgresqlBroom(tables))
    wire.flavour.call(sweeper.count)

    assert wire.flavour.call(sweeper.sweep, deadline=wire.flavour.clock.now() + 20) == 0
