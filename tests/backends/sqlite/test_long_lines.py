"""With ten thousand waiters, only the part of a line that decides a request is read."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from long_lines import LongLines

from lockfast.backends.sql.door_rows import COLUMNS
from lockfast.backends.sqlite._sync.backend import SqliteBackend
from lockfast.runtime.clock import Clock

MORE = f"""
WITH RECURSIVE more (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM more WHERE n < ?)
INSERT INTO places (key, {", ".join(COLUMNS)})
SELECT key, arrived + n, 'more ' || n, 'client of ' || n, {", ".join(COLUMNS[3:])}
FROM places, more
WHERE key = ? AND arrived = (SELECT max(arrived) FROM places WHERE key = ?)
"""  # noqa: S608 - the names of the columns


class CountedSteps:
    """The `Counted` store for SQLite: it counts the instructions of SQLite's virtual machine."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._steps = 0
        self.backend = SqliteBackend(path=path, clock=Clock())

    def lengthen(self, name: str, by: int) -> None:
        key = f"lockfast\0{name}".encode()
        with closing(sqlite3.connect(self._path)) as raw, raw:
            raw.execute(MORE, (by, key, key))

    def read(self) -> float:
        """Return the number of instructions since the first call, which requires a connection."""
        sqlite = self.backend._database.connection._sqlite
        sqlite.set_progress_handler(self._count, 1)
        return float(self._steps)

    def _count(self) -> int:
        self._steps += 1
        return 0


@pytest.fixture
def store(path) -> Iterator[CountedSteps]:
    one = CountedSteps(path)
    yield one
    one.backend.close()


class TestLongLines(LongLines):
    """The laws of long lines on SQLite: only the part of a line that can decide is read."""
