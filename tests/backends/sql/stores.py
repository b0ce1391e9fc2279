"""Two in-memory stores for the steps: one table as in SQLite, two tables as on a server.

The driver is minimal, and records the queries of each round trip.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from lockfast.backends.sql.dialect import Dialect, SeenDoor
from lockfast.backends.sql.door_rows import COLUMNS, Change
from lockfast.backends.sql.steps import Queries, Query, QueryMany, Rows, Steps
from lockfast.backends.sql.verbs import Verbs
from lockfast.backends.sqlite import schema
from lockfast.backends.sqlite.dialect import SqliteDialect
from lockfast.core.naming import storage_key

T = TypeVar("T")

NAMESPACE = "steps"


class Store:
    """A database in memory, its verbs, and the queries that it received."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.rounds: list[list[str]] = []
        self.sqlite = sqlite3.connect(":memory:", isolation_level=None)
        self.sqlite.create_function("store_time", 0, lambda: self.now)
        self.verbs: Verbs

    def run(self, steps: Steps[T]) -> T:
        """Run the steps in a transaction; a driver needs no more than these lines."""
        self.rounds = []
        answers: list[Rows] | None = None
        with self._transaction():
            try:
                while True:
                    asked = steps.send(answers)  # type: ignore[arg-type]  # None begins them
                    self.rounds.append([one.statement for one in asked])
                    answers = [self._answer(one) for one in asked]
            except StopIteration as end:
                answer: T = end.value
                return answer

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self.sqlite.execute("BEGIN")
        try:
            yield
        except BaseException:
            self.sqlite.execute("ROLLBACK")
            raise
        self.sqlite.execute("COMMIT")

    def _answer(self, one: Query | QueryMany) -> Rows:
        if isinstance(one, Query):
            return self.sqlite.execute(one.statement, one.values).fetchall()
        self.sqlite.executemany(one.statement, one.rows)
        return ()

    def places(self, name: str) -> list[tuple[Any, ...]]:
        """Return the rows of all claims at the name, without the record's own columns."""
        columns = ", ".join(COLUMNS[:14])
        rows = self.sqlite.execute(
            f"SELECT {columns} FROM places WHERE key = ? AND id != '' ORDER BY arrived",
            (storage_key(NAMESPACE, name),),
        )
        return rows.fetchall()

    def record(self, name: str) -> tuple[int, int]:
        """Return the capacity and the last token of the name."""
        row = self.sqlite.execute(
            "SELECT capacity, last_token FROM places WHERE key = ? AND arrived = 0",
            (storage_key(NAMESPACE, name),),
        ).fetchone()
        return row or (0, 0)

    def check(self, name: str) -> None:
        """Check that the name's record counts its rows correctly, if the store has such counts."""

    def close(self) -> None:
        self.sqlite.close()


class OneTable(Store):
    """A store with one table, as in the embedded file."""

    def __init__(self) -> None:
        super().__init__()
        for statement in (*schema.SCHEMA, schema.INDEX):
            self.sqlite.execute(statement)
        self.verbs = Verbs(SqliteDialect(lambda: self.now), namespace=NAMESPACE)


class TwoTables(Store):
    """A store with two tables, as on a server.

    The record of a name is a row that can be locked, and it counts the name's other rows.
    """

    def __init__(self) -> None:
        super().__init__()
        others = ", ".join(COLUMNS[1:])
        self.sqlite.executescript(
            f"""
            CREATE TABLE door (key PRIMARY KEY, {others}, crowd, head) WITHOUT ROWID;
            CREATE TABLE place (key, {", ".join(COLUMNS[:14])}, PRIMARY KEY (key, arrived));
            CREATE VIEW places AS
            SELECT key, 0 AS arrived, {others} FROM door
            UNION ALL SELECT key, {", ".join(COLUMNS[:14])}, 0, 0 FROM place;
            """
        )
        self.verbs = Verbs(TwoTablesDialect(), namespace=NAMESPACE)

    def check(self, name: str) -> None:
        key = storage_key(NAMESPACE, name)
        known = self.sqlite.execute("SELECT crowd, head FROM door WHERE key = ?", (key,))
        there = self.sqlite.execute(
            "SELECT count(*), coalesce(min(arrived), 0) FROM place WHERE key = ?", (key,)
        )
        assert known.fetchone() in (None, there.fetchone())


class TwoTablesDialect(Dialect):
    """SQL that SQLite runs, in a server's form: lock and time first, then the rows."""

    _others = ", ".join(COLUMNS[1:])
    _place = ", ".join(COLUMNS[:14])

    def door(self, key: bytes, *, front: int | None, locked: bool) -> Sequence[Query]:
        lock = "/* FOR UPDATE */" if locked else ""
        record = f"SELECT store_time(), 0, {self._others} FROM door WHERE key = ? {lock}"
        first = f"""
            SELECT {self._place} FROM place WHERE key = ? AND standing != 3
            UNION ALL SELECT * FROM (
                SELECT {self._place} FROM place WHERE key = ? AND standing = 3
                    AND arrived >= (SELECT head FROM door WHERE key = ?)
                ORDER BY arrived LIMIT ?)
            """
        values = (key, key, key, -1 if front is None else front)
        return Query(record, (key,)), Query(first, values)

    def seen(self, answers: Sequence[Rows]) -> SeenDoor | None:
        records, others = answers
        if not records:
            return None
        [(now, *record)] = records
        return SeenDoor(now, record[14], record[15], [tuple(record), *others])

    def make(self, key: bytes) -> Queries:
        nobody = "?, '', '', '', NULL, 0, 0, 0, 0, 0, 0, 0, 0, '', 0, 0, 0, 0"
        return [Query(f"INSERT INTO door VALUES ({nobody}) ON CONFLICT DO NOTHING", (key,))]

    def own(self, key: bytes, claim_id: str, arrived: int) -> Query:
        # Match the claim wherever it stands: `arrived` only helps to find it.
        del arrived
        return self.own_among(key, [claim_id])

    def own_among(self, key: bytes, claim_ids: Sequence[str]) -> Query:
        marks = ", ".join("?" * len(claim_ids))
        where = f"key = ? AND id IN ({marks}) AND standing = 3"
        return Query(f"SELECT {self._place} FROM place WHERE {where}", (key, *claim_ids))

    def same_owner(self, key: bytes, parties: Collection[str]) -> Query:
        marks = ", ".join("?" * len(parties))
        where = f"key = ? AND standing = 3 AND party IN ({marks})"
        return Query(f"SELECT {self._place} FROM place WHERE {where}", (key, *parties))

    def end_of_line(self, key: bytes) -> Query:
        last = "SELECT max(arrived) FROM place WHERE key = ?"
        return Query(f"SELECT ({last}), crowd FROM door WHERE key = ?", (key, key))

    def count_before(self, key: bytes, arrived: int) -> Query:
        return Query(
            "SELECT count(*) FROM place WHERE key = ? AND standing = 3 AND arrived < ?",
            (key, arrived),
        )

    def save(self, change: Change) -> Queries:
        asked: list[Query | QueryMany] = []
        if change.left:
            rows = [(change.key, arrived) for arrived in change.left]
            asked.append(QueryMany("DELETE FROM place WHERE key = ? AND arrived = ?", rows))
        if change.rows:
            marks = ", ".join("?" * 15)
            rows = [row[:15] for row in change.rows]
            save = f"INSERT OR REPLACE INTO place VALUES ({marks})"
            asked.append(QueryMany(save, rows))
        if change.record is not None or asked:
            asked.append(self._record(change))
        return asked

    def _record(self, change: Change) -> Query:
        sets, values = "", ()
        if change.record is not None:
            sets = "".join(f"{column} = ?, " for column in COLUMNS[1:])
            values = change.record[2:]
        return Query(
            f"UPDATE door SET {sets} crowd = crowd + ?, head = ? WHERE key = ?",
            (*values, change.crowd, change.head or 0, change.key),
        )

    def names_in_use(self, start: bytes) -> Query:
        return Query(
            "SELECT DISTINCT key FROM places WHERE id != '' AND standing < 4"
            " AND substr(key, 1, ?) = ? ORDER BY key",
            (len(start), start),
        )

    def names_of(self, clients: Sequence[str]) -> Query:
        marks = ", ".join("?" * len(clients))
        return Query(
            f"SELECT DISTINCT key FROM places WHERE client IN ({marks}) ORDER BY key",
            clients,
        )
