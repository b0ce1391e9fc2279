"""Two stores in memory that steps are run on: one table as SQLite has it, two as servers will.

The driver is the smallest there can be; it writes down what was asked, by round trips.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence
from typing import Any, TypeVar

from lockfast.backends.sql.changes import Change
from lockfast.backends.sql.dialect import Seen
from lockfast.backends.sql.rows import COLUMNS
from lockfast.backends.sql.steps import Ask, Asked, AskMany, Rows, Steps
from lockfast.backends.sql.verbs import Verbs
from lockfast.backends.sqlite import schema
from lockfast.backends.sqlite.dialect import SqliteDialect
from lockfast.core.naming import storage_key

T = TypeVar("T")

NAMESPACE = "steps"


class Store:
    """A database in memory, its verbs, and what was asked of it."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.rounds: list[list[str]] = []
        self.sqlite = sqlite3.connect(":memory:", isolation_level=None)
        self.sqlite.create_function("store_time", 0, lambda: self.now)
        self.verbs: Verbs

    def run(self, steps: Steps[T]) -> T:
        """Do the steps; ten lines are all that a driver needs."""
        self.rounds = []
        answers: list[Rows] | None = None
        try:
            while True:
                asked = steps.send(answers)  # type: ignore[arg-type]  # None begins them
                self.rounds.append([one.statement for one in asked])
                answers = [self._answer(one) for one in asked]
        except StopIteration as end:
            answer: T = end.value
            return answer

    def _answer(self, one: Ask | AskMany) -> Rows:
        if isinstance(one, Ask):
            return self.sqlite.execute(one.statement, one.values).fetchall()
        self.sqlite.executemany(one.statement, one.rows)
        return ()

    def places(self, name: str) -> list[tuple[Any, ...]]:
        """Return the rows of all who stand at the name, without the record's own columns."""
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
        """Fail unless what the store knows of its rows is true."""

    def close(self) -> None:
        self.sqlite.close()


class OneTable(Store):
    """As in the embedded file."""

    def __init__(self) -> None:
        super().__init__()
        for statement in (*schema.SCHEMA, schema.INDEX):
            self.sqlite.execute(statement)
        self.verbs = Verbs(SqliteDialect(lambda: self.now), namespace=NAMESPACE)


class TwoTables(Store):
    """As on a server: the record is a row to lock, and tells how many others there are."""

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


class TwoTablesDialect:
    """Text for SQLite, in the form of a server's: lock and time first, then what is there."""

    _others = ", ".join(COLUMNS[1:])
    _place = ", ".join(COLUMNS[:14])

    def door(self, key: bytes, *, front: int | None, locked: bool) -> Sequence[Ask]:
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
        return Ask(record, (key,)), Ask(first, values)

    def seen(self, answers: Sequence[Rows]) -> Seen | None:
        records, others = answers
        if not records:
            return None
        [(now, *record)] = records
        return Seen(now, record[14], record[15], [tuple(record), *others])

    def make(self, key: bytes) -> Asked:
        nobody = "?, '', '', '', NULL, 0, 0, 0, 0, 0, 0, 0, 0, '', 0, 0, 0, 0"
        return [Ask(f"INSERT INTO door VALUES ({nobody}) ON CONFLICT DO NOTHING", (key,))]

    def own(self, key: bytes, claim_id: str, arrived: int) -> Ask:
        # Wherever it stands: where it is said to have arrived only helps to find it.
        del arrived
        return self.own_among(key, [claim_id])

    def own_among(self, key: bytes, claim_ids: Sequence[str]) -> Ask:
        marks = ", ".join("?" * len(claim_ids))
        where = f"key = ? AND id IN ({marks}) AND standing = 3"
        return Ask(f"SELECT {self._place} FROM place WHERE {where}", (key, *claim_ids))

    def fellows(self, key: bytes, parties: Collection[str]) -> Ask:
        marks = ", ".join("?" * len(parties))
        where = f"key = ? AND standing = 3 AND party IN ({marks})"
        return Ask(f"SELECT {self._place} FROM place WHERE {where}", (key, *parties))

    def end_of_line(self, key: bytes) -> Ask:
        last = "SELECT max(arrived) FROM place WHERE key = ?"
        return Ask(f"SELECT ({last}), crowd FROM door WHERE key = ?", (key, key))

    def count_before(self, key: bytes, arrived: int) -> Ask:
        return Ask(
            "SELECT count(*) FROM place WHERE key = ? AND standing = 3 AND arrived < ?",
            (key, arrived),
        )

    def save(self, change: Change) -> Asked:
        asked: list[Ask | AskMany] = []
        if change.left:
            rows = [(change.key, arrived) for arrived in change.left]
            asked.append(AskMany("DELETE FROM place WHERE key = ? AND arrived = ?", rows))
        if change.rows:
            marks = ", ".join("?" * 15)
            rows = [row[:15] for row in change.rows]
            save = f"INSERT OR REPLACE INTO place VALUES ({marks})"
            asked.append(AskMany(save, rows))
        if change.record is not None or asked:
            asked.append(self._record(change))
        return asked

    def _record(self, change: Change) -> Ask:
        sets, values = "", ()
        if change.record is not None:
            sets = "".join(f"{column} = ?, " for column in COLUMNS[1:])
            values = change.record[2:]
        return Ask(
            f"UPDATE door SET {sets} crowd = crowd + ?, head = ? WHERE key = ?",
            (*values, change.crowd, change.head or 0, change.key),
        )

    def names_in_use(self, start: bytes) -> Ask:
        return Ask(
            "SELECT DISTINCT key FROM places WHERE id != '' AND standing < 4"
            " AND substr(key, 1, ?) = ? ORDER BY key",
            (len(start), start),
        )

    def names_of(self, clients: Sequence[str]) -> Ask:
        marks = ", ".join("?" * len(clients))
        return Ask(
            f"SELECT DISTINCT key FROM places WHERE client IN ({marks}) ORDER BY key",
            clients,
        )
