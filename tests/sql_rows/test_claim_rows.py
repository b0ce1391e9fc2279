"""A worker has a row to itself while it works on the row: every library, both flavours."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest
from databases import Database, connected
from sellers import settled

from lockfast import ConfigurationError, LeaseLost, NotOwner, StaleRow, StaleToken
from lockfast.sql_rows import async_claim_rows, claim_rows

COLUMNS = "id INTEGER PRIMARY KEY, state VARCHAR(20), born INTEGER"
COLUMNS += ", claimed_until {real}, claim_token {whole}"
PENDING = {"state": "pending"}


@pytest.fixture
def jobs(request) -> str:
    """A table with five pending jobs, the last of which is the oldest, and one that is done."""
    one = next(name for name in ("database", "plain") if name in request.fixturenames)
    return five_jobs(request.getfixturevalue(one))


def five_jobs(database: Database) -> str:
    table = database.table(COLUMNS)
    rows = ", ".join(f"({n}, 'pending', {10 - n}, NULL, NULL)" for n in range(1, 6))
    database.run(f"INSERT INTO {table} VALUES {rows}, (6, 'done', 0, NULL, NULL)")
    return table


def claims(database: Database, table: str, **options: Any) -> Any:
    make = async_claim_rows if database.is_asyncio else claim_rows
    settings = {"key": "id", "where": PENDING, "order_by": "born", "ttl": 60, **options}
    return make(database.connect, table, **settings)


async def following(rows: Any) -> Any:
    """Return the next row of a loop of either flavour; None if there is none."""
    if hasattr(rows, "__anext__"):
        return await anext(rows, None)
    return next(rows, None)


def end_all_claims(database: Database, table: str) -> None:
    """End every claim in its row, because the clock is the database's own."""
    database.run(f"UPDATE {table} SET claimed_until = 1 WHERE claimed_until IS NOT NULL")


def states(database: Database, table: str) -> dict[int, str]:
    return dict(database.run(f"SELECT id, state FROM {table}"))


def play(scene: Any) -> Any:
    """Run a scene with a function that makes claims for its workers, and close all claims."""

    async def played() -> Any:
        opened = []

        def claiming(database: Database, table: str, **options: Any) -> Any:
            opened.append(claims(database, table, **options))
            return opened[-1]

        try:
            return await scene(claiming)
        finally:
            for one in opened:
                await closed(one)

    return asyncio.run(played())


async def closed(rows: Any) -> None:
    await settled(rows.aclose() if hasattr(rows, "aclose") else rows.close())


def test_each_row_is_had_once_and_the_oldest_first(database, jobs):
    async def scene(claiming):
        rows, order = claiming(database, jobs, limit=2), []
        while (row := await following(rows)) is not None:
            order.append(row["id"])
            row.check()
            await settled(row.finish(state="done"))
        return order

    assert play(scene) == [5, 4, 3, 2, 1]
    assert set(states(database, jobs).values()) == {"done"}


def test_two_workers_never_have_the_same_row(database, jobs):
    async def scene(claiming):
        a, b = claiming(database, jobs, limit=2), claiming(database, jobs, limit=3)
        rows = [await following(one) for one in (a, b, a, b, b, a, b)]
        had = [None if row is None else row["id"] for row in rows]
        for row in rows:
            if row is not None:
                await settled(row.release())
        return had

    assert play(scene) == [5, 3, 4, 2, 1, None, None]
    assert set(states(database, jobs).values()) == {"pending", "done"}


def test_what_is_given_back_is_claimed_again_with_a_larger_token(database, jobs):
    async def scene(claiming):
        a, b = claiming(database, jobs), claiming(database, jobs)
        row = await following(a)
        await settled(row.release())
        again = await following(b)
        await settled(again.release())
        return row, again

    row, again = play(scene)

    assert row["id"] == again["id"] == 5
    assert again.token > row.token


def test_a_slow_workers_result_is_refused_when_another_has_the_row(database, jobs):
    """The error shows both tokens, and the other worker keeps the row."""

    async def scene(claiming):
        slow, other = claiming(database, jobs), claiming(database, jobs)
        late = await following(slow)
        end_all_claims(database, jobs)
        row = await following(other)
        with pytest.raises(StaleToken) as caught:
            await settled(late.finish(state="late"))
        await settled(row.finish(state="done"))
        return late, row, caught.value

    late, row, stale = play(scene)

    assert late["id"] == row["id"] == 5
    assert (stale.token, stale.seen) == (late.token, row.token)
    assert states(database, jobs)[5] == "done"


def test_a_late_result_counts_if_nobody_else_has_had_the_row(database, jobs):
    async def scene(claiming):
        row = await following(claiming(database, jobs))
        end_all_claims(database, jobs)
        await settled(row.finish(state="done"))

    play(scene)

    assert states(database, jobs)[5] == "done"


def test_a_result_may_be_part_of_a_transaction_of_the_callers(database, jobs):
    async def scene(claiming, *, commits: bool):
        rows = claiming(database, jobs)
        row = await following(rows)
        connection = await settled(database.connect())
        await settled(row.finish(connection, state="done"))
        await settled(connection.commit() if commits else connection.rollback())
        await settled(connection.close())
        return row["id"]

    first = play(partial(scene, commits=False))
    assert states(database, jobs)[first] == "pending"

    second = play(partial(scene, commits=True))
    assert states(database, jobs)[second] == "done"


def test_a_worker_that_waits_has_new_rows_as_they_come(database, jobs):
    async def scene(claiming):
        rows = claiming(database, jobs, poll=0.01, limit=5)
        for _ in range(5):
            await settled((await following(rows)).finish(state="done"))
        database.run(f"INSERT INTO {jobs} VALUES (7, 'pending', 0, NULL, NULL)")
        row = await following(rows)
        await settled(row.finish(state="done"))
        rows.stop()
        return row["id"], await following(rows)

    assert play(scene) == (7, None)


@pytest.mark.parametrize(
    "database", ["sqlite", "postgresql asyncio", "sqlalchemy mariadb"], indirect=True
)
def test_the_watchdog_renews_while_a_row_is_worked_on(database, jobs):
    async def scene(claiming):
        row = await following(claiming(database, jobs, ttl=9))
        [[first]] = database.run(f"SELECT claimed_until FROM {jobs} WHERE id = 5")
        for _ in range(6000):
            [[then]] = database.run(f"SELECT claimed_until FROM {jobs} WHERE id = 5")
            if then > first:
                break
            await asyncio.sleep(0.01)
        await settled(row.finish(state="done"))
        return then > first

    assert play(scene)


def test_a_renewal_tells_of_a_row_that_another_has(database, jobs):
    """The holder learns of the loss long before it finishes the row."""

    async def scene(claiming):
        row = await following(claiming(database, jobs))
        database.run(f"UPDATE {jobs} SET claim_token = claim_token + 1 WHERE id = 5")
        with pytest.raises(LeaseLost):
            await settled(row.lease.renew())
        return row.lease.lost.reason

    assert play(scene) == "taken"


def test_what_was_claimed_and_not_handed_out_goes_back_at_the_end(database, jobs):
    async def scene(claiming):
        rows = claiming(database, jobs, limit=4)
        row = await following(rows)
        await settled(row.finish(state="done"))
        await closed(rows)

    play(scene)

    assert database.run(f"SELECT id FROM {jobs} WHERE claimed_until IS NOT NULL") == []


def test_a_block_that_fails_gives_the_row_back(plain, jobs):
    def fail(row):
        with row:
            raise ZeroDivisionError

    with claims(plain, jobs) as rows, pytest.raises(ZeroDivisionError):
        fail(next(rows))

    assert plain.run(f"SELECT id FROM {jobs} WHERE claimed_until IS NOT NULL") == []


def test_a_finished_block_releases_nothing(plain, jobs):
    with claims(plain, jobs) as rows:
        for row in rows:
            with row:
                row.finish(state="done")

    assert set(states(plain, jobs).values()) == {"done"}


def test_a_row_is_finished_once(plain, jobs):
    with claims(plain, jobs) as rows:
        row = next(rows)
        row.finish(state="done")

        with pytest.raises(NotOwner, match="finished"):
            row.finish(state="twice")
        with pytest.raises(NotOwner, match="finished"):
            row.release()

    assert states(plain, jobs)[5] == "done"


def test_a_row_that_is_gone_is_told(plain, jobs):
    with claims(plain, jobs) as rows:
        row = next(rows)
        plain.run(f"DELETE FROM {jobs}")

        with pytest.raises(StaleRow, match="is gone"):
            row.finish(state="done")


def test_a_loop_that_is_left_gives_back_what_it_had_not_handed_out(plain, jobs, eventually):
    """The rows go back in the background, as Python does not report that a `for` loop was left."""
    for row in claims(plain, jobs, limit=4):
        row.finish(state="done")
        break

    eventually(lambda: plain.run(f"SELECT id FROM {jobs} WHERE claimed_until IS NOT NULL") == [])


@pytest.mark.parametrize("plain", ["postgresql", "mariadb"], indirect=True)  # SQLite locks all rows
def test_rows_that_another_transaction_locks_are_passed_over(jobs, plain):
    other = connected(plain.name, plain.address())
    other.cursor().execute(f"SELECT * FROM {jobs} WHERE id IN (5, 3) FOR UPDATE")

    with claims(plain, jobs, limit=5) as rows:
        ours = [next(rows)["id"] for _ in range(3)]
    other.rollback()
    other.close()

    assert ours == [4, 2, 1]


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({"limit": 0}, ConfigurationError, "limit=0"),
        ({"limit": True}, TypeError, "whole number"),
        ({"ttl": 0.001}, ConfigurationError, "at least 0.1 s"),
        ({"poll": 0}, ConfigurationError, "poll=0"),
        ({"where": "state = 'pending'"}, TypeError, "a dict of columns"),
        ({"where": {"": 1}}, ConfigurationError, "the name of a column"),
        ({"until": "claim_token"}, ConfigurationError, "two columns of their own"),
        ({"token": "id"}, ConfigurationError, "two columns of their own"),
        ({"key": ()}, ConfigurationError, "the name of a column"),
        ({"order_by": ("born", "born")}, ConfigurationError, "the name of a column"),
    ],
)
def test_what_cannot_be_claimed_is_refused_before_anything_is_asked(options, error, sentence):
    settings = {"key": "id", "where": PENDING, **options}

    with pytest.raises(error, match=sentence):
        claim_rows(lambda: None, "jobs", **settings)


def test_a_connection_in_place_of_a_function_is_refused():
    with pytest.raises(TypeError, match="a function that returns a new connection"):
        claim_rows("shop.db", "jobs", key="id", where={})  # type: ignore[arg-type]


@pytest.mark.parametrize("missing", ["claimed_until", "claim_token", "born", "state"])
def test_a_table_without_a_column_is_told_in_a_sentence(plain, missing):
    kept = [one for one in COLUMNS.split(", ") if not one.startswith(missing)]
    table = plain.table(", ".join(kept))
    plain.run(f"INSERT INTO {table} (id) VALUES (1)")
    where = {} if missing != "state" else PENDING

    with (
        claims(plain, table, where=where) as rows,
        pytest.raises(ConfigurationError, match=f"no such table, column|{missing}"),
    ):
        next(rows)


def test_changes_of_the_claims_own_columns_are_refused(plain, jobs):
    with claims(plain, jobs) as rows:
        row = next(rows)

        for changes in ({}, {"id": 9}, {"claim_token": 1}, {"claimed_until": None}):
            with pytest.raises(ConfigurationError):
                row.finish(**changes)
        row.release()


ROUNDING = {"postgresql": "REAL", "mariadb": "FLOAT"}


@pytest.mark.parametrize("way", [*ROUNDING, *(f"{one} asyncio" for one in ROUNDING)])
@pytest.mark.parametrize(
    ("column", "better"), [("claimed_until", "DOUBLE PRECISION"), ("claim_token", "BIGINT")]
)
def test_a_column_that_rounds_what_is_written_is_refused_with_a_type_to_use(
    way, column, better, tmp_path
):
    """A 32-bit float rounds seconds to two minutes: a second worker would get the row at once."""
    database = Database(way, tmp_path)
    kinds = {"claimed_until": "{real}", "claim_token": "{whole}"}
    kinds[column] = ROUNDING[database.name]
    table = database.table(
        "id INTEGER PRIMARY KEY, state VARCHAR(20), born INTEGER"
        + "".join(f", {name} {kind}" for name, kind in kinds.items())
    )
    database.run(f"INSERT INTO {table} VALUES (1, 'pending', 1, NULL, NULL)")

    async def scene(claiming):
        await following(claiming(database, table))

    with pytest.raises(ConfigurationError, match=f"'{column}'.*make it a {better}"):
        play(scene)
    assert database.run(f"SELECT {column} FROM {table}") == [(None,)]
