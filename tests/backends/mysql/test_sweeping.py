"""Idle names go after a day; none that is in use does, whoever comes at the same moment."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import pytest
from eventually import eventually

from holdfast.backends.mysql.schema import Tables
from holdfast.backends.mysql.statements import Statements
from holdfast.backends.mysql.sweeping import MysqlBroom
from holdfast.backends.sql import sweeping
from holdfast.backends.sql._async import wire as async_wire
from holdfast.backends.sql._async.sweeping import AsyncSweeper
from holdfast.backends.sql._sync import wire as sync_wire
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
        self.run = partial(server.run, database="test")
        kind = Sweeper if wire.flavour.name == "sync" else AsyncSweeper
        self._sweeper = wire.flavour.call(kind, wire.inner, MysqlBroom(tables))

    def take(self, name: str, **options: Any) -> int:
        """Take a name, and return the token."""
        rows = self.wire.run(self.statements.take_new(claim(name, name, **options)))
        token = self.statements.token_in(rows)
        assert token is not None
        return token

    def use(self, *names: str) -> None:
        """Take names and give them back."""
        for name in names:
            self.take(name)
            rows = self.wire.run(self.statements.release(claim(name, name)))
            assert self.statements.token_in(rows) is not None

    def age(self, seconds: float) -> None:
        """Let it be later than it was: all that was done, was done longer ago."""
        self.run(
            f"UPDATE {self.tables.door} SET last_token = last_token - {int(seconds * 1e6)},"
            f" token = token - {int(seconds * 1e6)}, since = since - {seconds},"
            f" until = IF(until = 0, 0, until - {seconds})"
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
        self.run(f"UPDATE {self.tables.door} SET crowd = crowd + 1 WHERE `key` = %s", key)

    def sweep(self) -> int:
        """Sweep a few rows; return how many names went."""
        flavour = self.wire.flavour
        flavour.call(self._sweeper.count, sweeping.SWEEP_EVERY)
        return int(flavour.call(self._sweeper.sweep, deadline=flavour.clock.now() + 20))

    def known(self) -> set[str]:
        """Return the names that are there."""
        return {name_of(bytes(key)) for (key,) in self.run(f"SELECT `key` FROM {self.tables.door}")}

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
    names.use("line", "idle")
    names.stands("line", "let in, and dead", standing=1, until=time.time() - DAY - 60)
    names.stands("line", "dead behind it", standing=3)
    names.stands("line", "buried", standing=4, until=time.time() - DAY - 60)
    names.age(DAY + 60)

    assert names.sweep() == 2
    assert names.known() == set()
    assert names.run(f"SELECT count(*) FROM {names.tables.place}") == ((0,),)


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


def test_it_goes_on_behind_what_is_in_use(names, monkeypatch) -> None:
    monkeypatch.setattr(sweeping, "SWEEP_ROWS", 4)
    for i in range(10):
        names.take(f"held {i}", ttl=7 * DAY)
    names.use("idle")
    names.age(DAY + 60)

    assert sum(names.sweep() for _ in range(4)) == 1
    assert len(names.known()) == 10


def test_a_client_sweeps_beside_its_own_calls(flavour, server, names, monkeypatch) -> None:
    """Whoever releases pays nothing for it; it is done when the client has a moment."""
    for module in (async_wire, sync_wire):
        monkeypatch.setattr(module, "IDLE", 0.5)
    names.old_one()
    locks = flavour.locks(server.url(), table=names.tables.table, namespace="test")

    locks.lock("other").acquire(timeout=20).release()

    eventually(lambda: names.known() == {"other"}, within=50, what="the idle name is swept")


# -- at the same moment --------------------------------------------------------------------


def test_a_name_that_somebody_is_taking_is_left_alone(names, server) -> None:
    """The broom waits for nobody: whoever came next would wait behind it."""
    names.old_one()
    with server.connect("test", autocommit=False) as taker, taker.cursor() as cursor:
        cursor.execute(f"UPDATE {names.tables.door} SET id = 'taker', until = {time.time() + 3600}")
        assert names.sweep() == 0
        taker.commit()

    assert names.sweep() == 0
    assert names.holders() == ["taker"]


def test_a_name_that_was_taken_after_the_broom_looked_stays(names, wire) -> None:
    """What it saw when it began is not what it goes by."""
    names.old_one()
    broom = MysqlBroom(names.tables)
    gone, between = broom.swept(wire.run(broom.request()))
    assert (gone, between is None) == (0, False)
    names.run(f"UPDATE {names.tables.door} SET id = 'taker', until = {time.time() + 60}")

    assert wire.transact(partial(broom.lines, between)) == 0
    assert names.holders() == ["taker"]


def test_who_has_just_been_let_in_beside_the_dead_is_seen(names, wire) -> None:
    """By the statement after the one that locks the name."""
    names.old_one()
    names.stands("door", "buried", standing=4)

    def steps():
        inner = MysqlBroom(names.tables).lines(ALL)
        locked = yield next(inner)
        # As if by one who had come before us: nobody comes now, since the name is locked.
        until = time.time() + 60
        yield [Ask(f"UPDATE {names.tables.place} SET standing = 1, until = {until}")]
        return (yield from go_on(inner, locked))

    assert wire.transact(steps) == 0
    assert names.known() == {"door"}


def go_on(steps, answers):
    """Go on with steps that have been begun."""
    try:
        asked = steps.send(answers)
        while True:
            asked = steps.send((yield asked))
    except StopIteration as end:
        return end.value


def test_who_comes_while_the_name_goes_gets_it_and_a_larger_token(names, wire) -> None:
    last = names.old_one()
    mine = claim("taker", "door")
    asked = []

    def steps():
        gone = yield from MysqlBroom(names.tables).lines(ALL)
        asked.append(wire.flavour.start(wire.run, names.statements.take_new(mine)))
        yield [Ask("SELECT SLEEP(0.2)")]
        return gone

    assert wire.transact(steps) == 1
    token = names.statements.token_in(asked[0].result(20))
    assert token is not None
    assert token > last
    assert names.holders() == ["taker"]


def test_takers_and_brooms_at_once_lose_no_hold_and_no_token(wire_to, server, tables) -> None:
    """Names as old as can be, taken, given back, made old and swept, all at once."""
    statements = Statements(tables, namespace="test")
    wires = [wire_to(server.url()) for _ in range(3)]
    done = False

    def use(number: int) -> int:
        wire, last, count = wires[number], dict.fromkeys(("a", "b"), 0), 0
        for turn in range(40):
            for name in last:
                mine = claim(f"{number}.{turn}", f"{number}.{name}")
                token = statements.token_in(wire.run(statements.take(mine)))
                token = token or statements.token_in(wire.run(statements.take_new(mine)))
                assert token, "it is ours alone, and was given back"
                assert token > last[name]
                freed = statements.token_in(wire.run(statements.release(mine)))
                assert freed is not None, "a hold was swept"
                key = storage_key("test", mine.name)
                wire.ask(
                    f"UPDATE {tables.door} SET last_token = 0 WHERE `key` = %s AND id = ''", key
                )
                last[name], count = token, count + 1
        return count

    def sweep() -> int:
        gone, broom = 0, MysqlBroom(tables)
        while not done:
            _, between = broom.swept(wires[2].run(broom.request()))
            if between is not None:
                gone += wires[2].transact(partial(broom.lines, between))
        return gone

    flavour = wires[0].flavour
    brooms = [flavour.start(sweep) for _ in range(2)]
    users = [flavour.start(use, number) for number in range(2)]
    try:
        assert [one.result() for one in users] == [80, 80]
    finally:
        done = True
    assert sum(one.result() for one in brooms) > 0


def test_a_store_that_is_away_does_no_harm(wire_to, tables) -> None:
    wire = wire_to("mariadb://root@127.0.0.1:1/test")
    kind = Sweeper if wire.flavour.name == "sync" else AsyncSweeper
    sweeper = wire.flavour.call(kind, wire.inner, MysqlBroom(tables))
    wire.flavour.call(sweeper.count)

    assert wire.flavour.call(sweeper.sweep, deadline=wire.flavour.clock.now() + 20) == 0
