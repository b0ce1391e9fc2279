"""What a verb reads of a name; a long line costs no more than a short one."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from lockfast.backends.postgresql.dialect import PostgresqlDialect
from lockfast.backends.sql.steps import Query
from lockfast_challenge.processes import eventually

OWNER = '{"host": "here", "pid": 1, "label": "", "context": ""}'
KEY = b"test\0door"


@pytest.fixture
def dialect(tables) -> PostgresqlDialect:
    return PostgresqlDialect(tables)


def place(arrived: int, standing: int = 3, **more: Any) -> tuple[object, ...]:
    """Return a row in the format of a change: the key first, the record's own columns last."""
    told = {"party": None, "until": 0.0, "since": 0.0, "token": 0, **more}
    claim = (f"claim {arrived}", "client", OWNER, told["party"], 1, 10.0, 0.0, 0.0, standing)
    return (KEY, arrived, *claim, told["until"], told["since"], told["token"], "bell", 1, 0)


def change(**more: Any) -> SimpleNamespace:
    nothing = {"key": KEY, "left": [], "rows": [], "record": None, "crowd": 0, "head": None}
    return SimpleNamespace(**{**nothing, **more})


def read(
    transport, dialect: PostgresqlDialect, *, front: int | None = 2, locked: bool = True
) -> Any:
    def steps():
        return dialect.seen((yield dialect.door(KEY, front=front, locked=locked)))

    return transport.transact(steps)


def write(
    transport, dialect: PostgresqlDialect, one: SimpleNamespace, *, makes: bool = False
) -> None:
    def steps():
        yield [*(dialect.make(KEY) if makes else ()), *dialect.save(one)]

    transport.transact(steps)


def filled(transport, dialect: PostgresqlDialect, count: int) -> None:
    """Store a holder in the door's record, and a second holder and `count` waiters as rows."""
    rows = [place(1, standing=0), *(place(i) for i in range(2, count + 2))]
    record = place(0, standing=0, token=7)
    write(
        transport,
        dialect,
        change(rows=rows, record=(*record[:-2], 1, 7), crowd=count + 1, head=1),
        makes=True,
    )


def test_a_name_without_a_record_has_none(transport, dialect) -> None:
    assert read(transport, dialect) is None
    assert read(transport, dialect, locked=False) is None


@pytest.mark.parametrize("locked", [True, False])
def test_what_was_written_is_read_again(transport, dialect, locked) -> None:
    filled(transport, dialect, 5)

    now, capacity, token, rows = read(transport, dialect, front=None, locked=locked)

    assert (capacity, token) == (1, 7)
    assert [row[0] for row in rows] == list(range(7))
    assert rows[0][:-2] == place(0, standing=0, token=7)[1:-2]
    assert rows[3][:-2] == place(3)[1:-2]
    assert now > 1_700_000_000


@pytest.mark.parametrize("locked", [True, False])
def test_of_a_long_line_the_front_is_read_and_all_who_do_not_wait(
    transport, dialect, locked
) -> None:
    filled(transport, dialect, 50)
    tomb = place(40, standing=4, until=5.0)
    write(transport, dialect, change(rows=[tomb], head=1))

    _, _, _, rows = read(transport, dialect, locked=locked)

    assert sorted(row[0] for row in rows) == [0, 1, 2, 3, 40]


def test_who_leaves_is_gone_and_counted_off(transport, dialect, server, tables) -> None:
    filled(transport, dialect, 5)
    write(transport, dialect, change(left=[1, 2], crowd=-2, head=3))

    _, _, _, rows = read(transport, dialect)

    assert [row[0] for row in rows] == [0, 3, 4]
    assert server.run(f"SELECT crowd, head FROM {tables.door}") == [(4, 3)]
    [last, number] = transport.run(dialect.end_of_line(KEY))[0]
    assert (last, number) == (6, 4)
    assert transport.run(dialect.count_before(KEY, 6)) == [(3,)]


def test_one_and_those_who_share_a_hold_are_found_anywhere(transport, dialect) -> None:
    filled(transport, dialect, 20)
    write(transport, dialect, change(rows=[place(15, party='it\'s {a} "saga"')], head=1))

    assert transport.run(dialect.own(KEY, "claim 9", 9))[0][0] == 9
    among = transport.run(dialect.own_among(KEY, ["claim 9", "claim 7", "nobody's"]))
    assert sorted(row[0] for row in among) == [7, 9]
    assert transport.run(dialect.own(KEY, "claim 9", 8)) == []
    assert transport.run(dialect.same_owner(KEY, {'it\'s {a} "saga"', "x"}))[0][0] == 15


def test_names_in_use_are_found_by_their_beginning(transport, dialect) -> None:
    filled(transport, dialect, 1)

    assert transport.run(dialect.names_in_use(b"test\0")) == [(KEY,)]
    assert transport.run(dialect.names_in_use(b"test\0e")) == []
    assert transport.run(dialect.names_of(["client"])) == [(KEY,)]


def test_the_time_and_the_rows_are_those_after_the_wait_for_the_lock(
    transport, dialect, server, tables
) -> None:
    """An earlier read would show an ended lease as alive, and a claim that left as waiting."""
    filled(transport, dialect, 1)
    with server.connect() as other, other.transaction():
        other.execute(f"SELECT FROM {tables.door} FOR UPDATE")
        asked = transport.flavour.start(read, transport, dialect)
        pid = other.info.backend_pid
        blocked = f"SELECT count(*) FROM pg_stat_activity WHERE {pid} = ANY(pg_blocking_pids(pid))"
        eventually(lambda: server.run(blocked)[0][0])
        other.execute(f"DELETE FROM {tables.place} WHERE arrived = 2")
        [(let_go,)] = other.execute("SELECT extract(epoch FROM clock_timestamp())::float8")

    now, _, _, rows = asked.result()

    assert now > let_go
    assert [row[0] for row in rows] == [0, 1]


@pytest.mark.parametrize("is_analyzed", [False, True])
def test_a_line_of_thousands_costs_what_a_short_one_costs(
    transport, dialect, server, tables, is_analyzed
) -> None:
    """A long line touches few more pages than a short one, even with the plan of a new table."""

    def pages(*, locked: bool) -> int:
        def steps():
            touched = 0
            for one in dialect.door(KEY, front=2, locked=locked):
                explain = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {one.statement}"
                [[(plan,)]] = yield [Query(explain, one.values)]
                [found] = json.loads(plan)
                touched += found["Plan"]["Shared Hit Blocks"] + found["Plan"]["Shared Read Blocks"]
            return touched

        return transport.transact(steps)

    filled(transport, dialect, 10)
    short = pages(locked=True), pages(locked=False)
    rows = [place(i) for i in range(12, 5012)]
    write(transport, dialect, change(rows=rows, crowd=5000, head=1))
    if is_analyzed:
        server.run(f"ANALYZE {tables.place}")

    long = pages(locked=True), pages(locked=False)

    assert long[0] <= short[0] + 8
    assert long[1] <= short[1] + 8
