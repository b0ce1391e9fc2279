"""Fixtures of the guard tests: locks, and connections as an application opens them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest
from callers import ASYNC, Caller

from lockfast import Locks, fencing


class GuardedTable:
    """A table with a mark in each row, and the guards in the flavour of a connection."""

    def __init__(self, caller: Caller, *, fence: str = "fence", column: str = "BIGINT") -> None:
        self.caller = caller
        self.name = f"t{os.urandom(5).hex()}"
        self.fence = fence
        quoted = caller.quoted
        caller.run(
            f"CREATE TABLE {quoted(self.name)} (id INT PRIMARY KEY, words VARCHAR(99),"
            f" other VARCHAR(9) UNIQUE, {quoted(fence)} {column})"
        )
        caller.run(f"INSERT INTO {quoted(self.name)} (id, words) VALUES (1, 'empty')")
        caller.commit()

    def update(self, token, words: str, *, key: int = 1, **values: object) -> None:
        self._guard("fenced_update", key, token, {"words": words, **values})

    def upsert(self, token, words: str, *, key: int = 1, **values: object) -> None:
        self._guard("fenced_upsert", key, token, {"words": words, **values})

    def seal(self, token, *, key: int = 1) -> None:
        self._guard("seal", key, token)

    def _guard(self, what: str, key: int, token, *rest: object) -> None:
        lease = ("door", token) if isinstance(token, int) else token
        function = getattr(fencing, f"async_{what}" if self.caller.kind in ASYNC else what)
        given = (self.caller.connection, self.name, {"id": key}, lease, *rest)
        self.caller.call(function, *given, fence=self.fence)

    def rows(self) -> list[tuple]:
        columns = f"id, words, {self.caller.quoted(self.fence)}"
        return self.caller.run(f"SELECT {columns} FROM {self.caller.quoted(self.name)} ORDER BY id")

    def drop(self) -> None:
        self.caller.rollback()
        self.caller.run(f"DROP TABLE {self.caller.quoted(self.name)}")
        self.caller.commit()


@pytest.fixture
def locks(tmp_path) -> Iterator[Locks]:
    with Locks(f"sqlite://{tmp_path}/locks.db", request_timeout=30) as one:
        yield one


@pytest.fixture
def table_of(tmp_path) -> Iterator[Callable[..., GuardedTable]]:
    """Return a function that opens a connection of a kind, and creates a table over it."""
    made: list[GuardedTable] = []

    def make(kind: str, **options: str) -> GuardedTable:
        made.append(GuardedTable(Caller(kind, tmp_path), **options))
        return made[-1]

    yield make
    for one in made:
        one.drop()
        one.caller.close()
