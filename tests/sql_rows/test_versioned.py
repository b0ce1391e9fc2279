"""A row is written only if it has not changed since it was read: every library, both flavours."""

from __future__ import annotations

import asyncio
import contextlib
import pickle
from typing import Any

import pytest
from databases import Database
from sellers import settled

from lockfast import ConfigurationError, StaleRow
from lockfast.sql_rows import AsyncVersioned, Versioned

COLUMNS = "town VARCHAR(20), item VARCHAR(20), n INTEGER, version {whole} NOT NULL"
COLUMNS += ", PRIMARY KEY (town, item)"


@pytest.fixture
def stock(database) -> str:
    """A table with a key of two columns and one row."""
    table = database.table(COLUMNS)
    database.run(f"INSERT INTO {table} VALUES ('Bern', 'lamp', 10, 7)")
    return table


def versioned(database: Database, table: Any, **options: Any) -> Any:
    make = AsyncVersioned if database.is_asyncio else Versioned
    return make(table, **{"key": ("town", "item"), **options})


def play(database: Database, scene: Any) -> Any:
    """Run a scene with two connections."""

    async def played() -> Any:
        connections = [await settled(database.connect()) for _ in "ab"]
        try:
            return await scene(*connections)
        finally:
            for one in connections:
                with contextlib.suppress(Exception):
                    await settled(one.rollback())
                await settled(one.close())

    return asyncio.run(played())


def test_what_was_read_can_be_written_once(database, stock):
    """The second of two writers gets an error with the current row."""
    rows = versioned(database, stock)

    async def scene(ours, theirs):
        mine = await settled(rows.read(ours, "Bern", "lamp"))
        await settled(ours.commit())
        other = await settled(rows.read(theirs, "Bern", "lamp"))
        after = await settled(rows.write(theirs, other, n=other["n"] - 1))
        await settled(theirs.commit())
        with pytest.raises(StaleRow) as caught:
            await settled(rows.write(ours, mine, n=mine["n"] - 1))
        return after, caught.value

    after, stale = play(database, scene)

    assert (after["n"], after.version) == (9, 8)
    assert (stale.current["n"], stale.current.version) == (9, 8)
    assert pickle.loads(pickle.dumps(stale)).current["n"] == 9  # noqa: S301 - our own
    assert database.run(f"SELECT n, version FROM {stock}")[0] == (9, 8)


def test_a_row_that_is_gone_is_stale_and_shows_nothing(database, stock):
    rows = versioned(database, stock)

    async def scene(ours, _theirs):
        mine = await settled(rows.read(ours, "Bern", "lamp"))
        await settled(ours.commit())
        database.run(f"DELETE FROM {stock}")
        with pytest.raises(StaleRow, match="is gone") as caught:
            await settled(rows.write(ours, mine, n=1))
        return caught.value.current

    assert play(database, scene) is None


def test_retry_reads_again_until_it_is_the_only_one(database, stock):
    rows = versioned(database, stock)
    calls = []

    def change(row):
        calls.append(row["n"])
        if len(calls) == 1:  # another writer is faster, once
            database.run(f"UPDATE {stock} SET n = 5, version = version + 1")
        return {"n": row["n"] - 1}

    async def scene(ours, _theirs):
        return await settled(rows.retry(ours, "Bern", "lamp", change=change))

    assert play(database, scene)["n"] == 4
    assert calls == [10, 5]
    assert database.run(f"SELECT n, version FROM {stock}")[0] == (4, 9)


def test_retry_gives_up_after_its_attempts(database, stock):
    rows = versioned(database, stock)

    def change(_row):
        database.run(f"UPDATE {stock} SET version = version + 1")
        return {"n": 0}

    async def scene(ours, _theirs):
        with pytest.raises(StaleRow) as caught:
            await settled(rows.retry(ours, "Bern", "lamp", change=change, attempts=3))
        return caught.value.current

    assert play(database, scene).version == 10
    assert database.run(f"SELECT n FROM {stock}")[0] == (10,)


def test_retry_changes_nothing_when_told_nothing(database, stock):
    async def scene(ours, _theirs):
        rows = versioned(database, stock)
        return await settled(rows.retry(ours, "Bern", "lamp", change=lambda _row: None))

    assert play(database, scene).version == 7


def test_a_failing_change_leaves_no_transaction_open(database, stock):
    async def scene(ours, _theirs):
        rows = versioned(database, stock)
        with pytest.raises(ZeroDivisionError):
            await settled(rows.retry(ours, "Bern", "lamp", change=lambda _row: {"n": 1 // 0}))
        return await settled(rows.retry(ours, "Bern", "lamp", change=lambda _row: {"n": 3}))

    assert play(database, scene)["n"] == 3


def test_retry_is_refused_in_a_transaction_of_the_callers(database, stock):
    rows = versioned(database, stock)

    async def scene(ours, _theirs):
        row = await settled(rows.read(ours, "Bern", "lamp"))
        await settled(rows.write(ours, row, n=1))
        with pytest.raises(ConfigurationError, match="in a transaction of yours"):
            await settled(rows.retry(ours, "Bern", "lamp", change=lambda _row: {"n": 2}))

    play(database, scene)


@pytest.mark.parametrize(
    ("key", "changes", "error", "sentence"),
    [
        (("Bern", "lamp"), {}, ConfigurationError, "at least one"),
        (("Bern", "lamp"), {"version": 3}, ConfigurationError, "not version"),
        (("Bern", "lamp"), {"town": "Basel"}, ConfigurationError, "not town"),
        (("Bern", "lamp"), {"colour": "red"}, ConfigurationError, "no such table, column"),
        (("Bern", "lamp"), {'n" = 0 --': 1}, ConfigurationError, "no such table, column"),
        (("Bern",), {"n": 1}, ConfigurationError, "give 2 value"),
        (("Bern", None), {"n": 1}, ConfigurationError, "not None"),
    ],
)
def test_what_cannot_be_written_is_refused_and_changes_nothing(
    plain, key, changes, error, sentence
):
    table = plain.table(COLUMNS)
    plain.run(f"INSERT INTO {table} VALUES ('Bern', 'lamp', 10, 7)")
    rows = versioned(plain, table)

    async def scene(ours, _theirs):
        with pytest.raises(error, match=sentence):
            rows.write(ours, rows.read(ours, *key), **changes)

    play(plain, scene)

    assert plain.run(f"SELECT * FROM {table}") == [("Bern", "lamp", 10, 7)]


def test_a_key_that_is_not_there_is_none_and_retry_says_so(plain):
    rows = versioned(plain, plain.table(COLUMNS))

    async def scene(ours, _theirs):
        assert rows.read(ours, "Bern", "chair") is None
        ours.rollback()
        with pytest.raises(LookupError, match="no row"):
            rows.retry(ours, "Bern", "chair", change=lambda _row: {"n": 1})

    play(plain, scene)


def test_a_table_without_the_column_is_told_in_a_sentence(plain):
    table = plain.table("id INTEGER PRIMARY KEY, n INTEGER")
    plain.run(f"INSERT INTO {table} VALUES (1, 10)")

    async def scene(ours, _theirs):
        with pytest.raises(ConfigurationError, match="'version' a column of whole numbers"):
            Versioned(table, key="id").read(ours, 1)
        ours.rollback()
        with pytest.raises(ConfigurationError, match="no such table"):
            Versioned(f"{table}x", key="id").read(ours, 1)

    play(plain, scene)


def test_names_that_need_quoting_are_names(plain):
    quote = '"' if plain.name == "postgresql" else "`"
    odd = f"se{quote}lect %s :a; DROP"
    name, column = (f"{quote}{one.replace(quote, quote * 2)}{quote}" for one in (odd + " t", odd))
    plain.run(f"CREATE TABLE {name} ({column} INTEGER PRIMARY KEY, v INTEGER, n INTEGER)")
    plain.run(f"INSERT INTO {name} VALUES (1, 0, 10)")
    rows = Versioned(odd + " t", key=odd, version="v")

    async def scene(ours, _theirs):
        rows.write(ours, rows.read(ours, 1), n="9" if plain.name == "sqlite" else 9)
        ours.commit()

    play(plain, scene)

    assert plain.run(f"SELECT n FROM {name}") == [(9,)]
    plain.run(f"DROP TABLE {name}")


def test_a_key_that_fits_several_rows_is_told(plain):
    table = plain.table("id INTEGER, n INTEGER, version INTEGER NOT NULL")
    plain.run(f"INSERT INTO {table} VALUES (1, 10, 0), (1, 11, 0)")

    async def scene(ours, _theirs):
        rows = Versioned(table, key="id")
        with pytest.raises(ConfigurationError, match="2 rows"):
            rows.write(ours, rows.read(ours, 1), n=0)

    play(plain, scene)


def test_a_row_of_the_driver_is_refused():
    with pytest.raises(TypeError, match="what `read` returned"):
        Versioned("t", key="id").write(object(), {"id": 1}, n=2)  # type: ignore[arg-type]


@pytest.mark.parametrize("key", [(), "", ("a", "a"), ("a", "")])
def test_a_key_of_no_columns_is_refused(key):
    with pytest.raises(ConfigurationError, match="the name of a column"):
        Versioned("t", key=key)
