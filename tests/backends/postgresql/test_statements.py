"""The uncontended cycle on a real server, for one operation and for many at once."""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from lockfast.backends.postgresql.statements import PostgresqlStatements
from lockfast.backends.sql.batch import Operation, OperationKind
from lockfast.backends.sql.steps import Query
from lockfast.core.naming import storage_key
from lockfast.model import Claim
from lockfast_challenge.processes import eventually

OWNER = '{"host": "here", "pid": 1, "label": "", "context": ""}'


def claim(claim_id: str, name: str = "door", **more: Any) -> Claim:
    return Claim(claim_id, name, "client", OWNER, 1, 1, more.pop("ttl", 10.0), **more)


@pytest.fixture
def statements(tables) -> PostgresqlStatements:
    return PostgresqlStatements(tables, namespace="test")


def row(server, tables, name: str = "door") -> dict[str, object]:
    with server.connect() as connection:
        cursor = connection.execute(
            f"SELECT * FROM {tables.door} WHERE key = %s", (storage_key("test", name),)
        )
        columns = [one.name for one in cursor.description]
        return dict(zip(columns, cursor.fetchone(), strict=True))


def set_row(server, tables, assignments: str, name: str = "door") -> None:
    statement = f"UPDATE {tables.door} SET {assignments} WHERE key = %s"
    server.run(statement, storage_key("test", name))


def test_a_name_is_taken_given_back_and_taken_with_a_larger_token(transport, statements) -> None:
    assert transport.run(statements.take(claim("a"))) == []
    [(first,)] = transport.run(statements.take_new(claim("a")))
    assert (
        transport.run(statements.take(claim("b")))
        == transport.run(statements.take_new(claim("b")))
        == []
    )
    assert transport.run(statements.release(claim("b"))) == []
    assert transport.run(statements.release(claim("a"))) == [(True,)]

    [(second,)] = transport.run(statements.take(claim("b")))

    assert second > first


def test_the_token_and_the_last_token_agree_and_are_the_servers_time(
    transport, server, tables, statements
) -> None:
    transport.run(statements.take_new(claim("a")))
    transport.run(statements.release(claim("a")))
    before = time.time()
    [(token,)] = transport.run(statements.take(claim("a")))

    found = row(server, tables)

    assert found["token"] == found["last_token"] == token
    assert before - 1 < token / 1e6 < time.time() + 1
    assert found["until"] == pytest.approx(found["since"] + 10, abs=0.001)


def test_a_clock_behind_the_last_token_adds_one(transport, server, tables, statements) -> None:
    transport.run(statements.take_new(claim("a")))
    transport.run(statements.release(claim("a")))
    set_row(server, tables, f"last_token = {2**52}")

    assert transport.run(statements.take(claim("a"))) == [(2**52 + 1,)]


@pytest.mark.parametrize("assignments", ["crowd = 1", "until = 1", "standing = 1", "id = 'b'"])
def test_only_who_holds_alone_is_released_so(
    transport, server, tables, statements, assignments
) -> None:
    """If other claims are at the door, the line has to move, which this statement cannot do."""
    transport.run(statements.take_new(claim("a")))
    set_row(server, tables, assignments)

    assert transport.run(statements.release(claim("a"))) == []


def test_a_hold_is_not_given_back_before_its_least_time(transport, statements) -> None:
    transport.run(statements.take_new(claim("a", min_hold=60.0)))

    assert transport.run(statements.release(claim("a"))) == []


def test_who_joins_while_a_release_waits_for_the_row_is_seen(
    transport, server, tables, statements
) -> None:
    """If the release read the place table, it would see the rows as they were before its wait."""
    transport.run(statements.take_new(claim("a")))
    key = storage_key("test", "door")
    with server.connect() as other, other.transaction():
        other.execute(f"SELECT FROM {tables.door} WHERE key = %s FOR UPDATE", (key,))
        asked = transport.flavour.start(transport.run, statements.release(claim("a")))
        waiting = (
            f"SELECT count(*) FROM pg_locks WHERE NOT granted AND pid <> {other.info.backend_pid}"
        )
        eventually(lambda: server.run(waiting)[0][0])
        other.execute(f"UPDATE {tables.door} SET crowd = crowd + 1 WHERE key = %s", (key,))

    assert asked.result() == []
    assert row(server, tables)["id"] == "a"


def test_who_waits_for_a_row_that_is_changed_has_its_whole_ttl(
    transport, server, tables, statements
) -> None:
    transport.run(statements.take_new(claim("a")))
    transport.run(statements.release(claim("a")))
    key = storage_key("test", "door")
    with server.connect() as other:
        with other.transaction():
            other.execute(f"UPDATE {tables.door} SET head = 1 WHERE key = %s", (key,))
            asked = transport.flavour.start(transport.run, statements.take(claim("b")))
            waiting = (
                "SELECT count(*) FROM pg_locks"
                f" WHERE NOT granted AND pid <> {other.info.backend_pid}"
            )
            eventually(lambda: server.run(waiting)[0][0])
            [(let_go,)] = other.execute("SELECT date_part('epoch', clock_timestamp())").fetchall()
        assert asked.result()

    assert row(server, tables)["until"] >= let_go + 10


# -- confirming an admission -----------------------------------------------------------


def admit(server, tables, claim_id: str, *, until: float) -> None:
    """Add an admitted claim, as the release of another claim does."""
    server.run(
        f"INSERT INTO {tables.place} (key, arrived, id, client, owner, weight, ttl, lock_delay,"
        " min_hold, standing, until, since, token, bell)"
        " VALUES (%s, 1, %s, 'client', '', 1, 10, 0, 0, 1, %s, 0, 7, '')",
        storage_key("test", "door"),
        claim_id,
        until,
    )


def test_an_admission_is_confirmed_within_its_window(transport, server, tables, statements) -> None:
    transport.run(statements.take_new(claim("a")))
    admit(server, tables, "b", until=9e9)

    assert transport.run(statements.confirm(claim("b"), 1)) == [(7,)]

    [(standing, lasts)] = server.run(f"SELECT standing, until - since FROM {tables.place}")
    assert standing == 0
    assert lasts == pytest.approx(10, abs=0.001)


def test_an_admission_is_not_confirmed_after_its_window(
    transport, server, tables, statements
) -> None:
    """The next in line may be let in from then on, although the entry is still there."""
    transport.run(statements.take_new(claim("a")))
    admit(server, tables, "b", until=1.0)

    assert transport.run(statements.confirm(claim("b"), 1)) == []

    assert server.run(f"SELECT standing, until FROM {tables.place}") == [(1, 1.0)]


def test_an_admission_is_not_confirmed_for_another_claim(
    transport, server, tables, statements
) -> None:
    transport.run(statements.take_new(claim("a")))
    admit(server, tables, "b", until=9e9)

    assert transport.run(statements.confirm(claim("c"), 1)) == []


# -- together --------------------------------------------------------------------------


def together(
    transport, statements: PostgresqlStatements, *operations: Operation
) -> list[int | None]:
    return statements.done(operations, transport.run_all(statements.together(operations)))


def test_takes_releases_and_renewals_go_as_one(transport, server, tables, statements) -> None:
    [old] = together(transport, statements, Operation(OperationKind.TAKE, claim("a", "one")))
    [kept] = together(
        transport, statements, Operation(OperationKind.TAKE, claim("b", "two", ttl=30.0))
    )

    done = together(
        transport,
        statements,
        Operation(OperationKind.TAKE, claim("c", "three")),
        Operation(OperationKind.RELEASE, claim("a", "one")),
        Operation(OperationKind.RENEW, claim("b", "two", ttl=60.0)),
        Operation(OperationKind.RENEW, claim("x", "unknown")),
        Operation(OperationKind.TAKE, claim("d", "four")),
    )

    assert done[1:4] == [old, kept, None]
    assert done[0] is not None
    assert done[4] is not None
    assert row(server, tables, "two")["until"] > time.time() + 30
    assert server.run(f"SELECT count(*) FROM {tables.door}") == [(4,)]


def test_however_small_the_table_is_many_at_once_do_not_read_all_of_it(
    transport, server, tables, statements
) -> None:
    """The server keeps the plan of the first runs, and the table may grow before the next run."""
    server.run(f"ALTER TABLE {tables.door} SET (autovacuum_enabled = off)")  # never analysed
    names = [f"door {number}" for number in range(50)]
    seen = "SELECT seq_scan FROM pg_stat_xact_all_tables WHERE relid = $1::regclass"
    count = Query(seen, (tables.door,))
    found = []
    for what in [OperationKind.TAKE, OperationKind.RENEW, OperationKind.RELEASE] * 4:
        requests = statements.together([Operation(what, claim("a", one)) for one in names])
        before, *_, after = transport.run_all([count, *requests, count])
        found.append(after[0][0] - before[0][0])

    assert found == [0] * 12


def test_each_does_only_what_it_would_do_alone(transport, server, tables, statements) -> None:
    """Nothing is done for names that are held by others, crowded, expired or released too early."""
    names = ("held", "crowded", "over", "early")
    for name in names:
        together(
            transport,
            statements,
            Operation(OperationKind.TAKE, claim("a", name, min_hold=60.0 * (name == "early"))),
        )
    set_row(server, tables, "crowd = 1", "crowded")
    set_row(server, tables, "until = 1", "over")

    taken = together(
        transport, statements, *(Operation(OperationKind.TAKE, claim("b", one)) for one in names)
    )
    wrong = together(
        transport, statements, *(Operation(OperationKind.RELEASE, claim("b", one)) for one in names)
    )
    freed = together(
        transport,
        statements,
        *(Operation(OperationKind.RELEASE, claim("a", one)) for one in names[1:]),
    )
    renewed = together(
        transport, statements, *(Operation(OperationKind.RENEW, claim("a", one)) for one in names)
    )

    assert taken == wrong == [None] * 4
    assert freed == [None] * 3
    assert [one is not None for one in renewed] == [True, True, False, True]
    assert row(server, tables, "crowded")["crowd"] == 1


def test_a_release_leaves_nothing_of_the_releaser(transport, server, tables, statements) -> None:
    together(transport, statements, Operation(OperationKind.TAKE, claim("a", party="saga")))
    together(transport, statements, Operation(OperationKind.RELEASE, claim("a", party="saga")))

    found = row(server, tables)

    assert [found[one] for one in ("id", "client", "owner", "party", "bell")] == [
        "",
        "",
        "",
        None,
        "",
    ]


def test_a_release_of_a_name_that_is_being_swept_makes_no_ghost(
    transport, server, tables, statements
) -> None:
    """The release still sees the row, but the row is gone when the reaper's transaction ends."""
    together(transport, statements, Operation(OperationKind.TAKE, claim("a")))
    key = storage_key("test", "door")
    with server.connect() as other, other.transaction():
        other.execute(f"DELETE FROM {tables.door} WHERE key = %s", (key,))
        gone = together(transport, statements, Operation(OperationKind.RELEASE, claim("a")))

    assert (
        gone
        == together(transport, statements, Operation(OperationKind.RELEASE, claim("a")))
        == [None]
    )
    assert server.run(f"SELECT count(*) FROM {tables.door}") == [(0,)]
    assert together(transport, statements, Operation(OperationKind.TAKE, claim("b"))) != [None]


def test_a_name_that_somebody_has_locked_holds_up_nobody(
    transport, server, tables, statements
) -> None:
    """A batch skips locked rows, which are waited for at their own doors, and does the rest."""
    for name in ("taken", "kept", "idle", "other"):
        together(transport, statements, Operation(OperationKind.TAKE, claim("a", name)))
    together(
        transport,
        statements,
        *(Operation(OperationKind.RELEASE, claim("a", one)) for one in ("idle", "other")),
    )
    with server.connect() as other, other.transaction():
        other.execute(f"SELECT FROM {tables.door} FOR UPDATE")
        locked = together(
            transport,
            statements,
            Operation(OperationKind.RELEASE, claim("a", "taken")),
            Operation(OperationKind.RENEW, claim("a", "kept")),
            Operation(OperationKind.TAKE, claim("b", "idle")),
            Operation(OperationKind.TAKE, claim("b", "new")),
        )

    assert [one is not None for one in locked] == [False, False, False, True]
    assert row(server, tables, "taken")["id"] == row(server, tables, "kept")["id"] == "a"
    assert row(server, tables, "idle")["id"] == ""


def test_many_at_once_on_the_same_names_do_not_wait_for_each_other_in_a_circle(
    wire_to, server, tables, statements
) -> None:
    names = [f"name {i}" for i in range(12)]
    transports = [wire_to(server.url()) for _ in range(4)]
    before = server.run("SELECT deadlocks FROM pg_stat_database WHERE datname = 'postgres'")
    inside: dict[str, str] = {}
    seen: dict[str, int] = {}
    state = threading.Lock()

    def work(number: int) -> int:
        dice, grants = random.Random(number), 0  # noqa: S311 - the same numbers in each run
        for turn in range(15):
            chosen = dice.sample(names, 6)
            mine = [Operation(OperationKind.TAKE, claim(f"{number}.{turn}", one)) for one in chosen]
            tokens = together(transports[number], statements, *mine)
            held = [one for one, token in zip(mine, tokens, strict=True) if token is not None]
            with state:
                for one, token in zip(mine, tokens, strict=True):
                    if token is not None:
                        assert inside.setdefault(one.claim.name, one.claim.id) == one.claim.id
                        assert token > seen.get(one.claim.name, 0)
                        seen[one.claim.name] = token
                        grants += 1
                for one in held:
                    del inside[one.claim.name]
            back = [Operation(OperationKind.RELEASE, one.claim) for one in held]
            while back:  # rows that others have locked are retried
                done = together(transports[number], statements, *back)
                back = [one for one, token in zip(back, done, strict=True) if token is None]
        return grants

    with ThreadPoolExecutor(4) as threads:
        assert sum(threads.map(work, range(4))) > 0

    assert server.run("SELECT deadlocks FROM pg_stat_database WHERE datname = 'postgres'") == before
