"""A store that bad input must leave unchanged."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from lockfast import Locks


class Store:
    """A store file in which a client holds "held"; the file must be the same afterwards."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.url = f"sqlite://{path}"
        self.holder = Locks(self.url)
        self.lease = self.holder.lock("held", ttl=600).acquire()
        self.locks = Locks(self.url)
        self.locks.inspect("held")
        self._before = self._dump()

    def _dump(self) -> list[str]:
        connection = sqlite3.connect(self.path)
        try:
            return list(connection.iterdump())
        finally:
            connection.close()

    def is_unchanged(self) -> bool:
        self.lease.check()
        return self._dump() == self._before


@pytest.fixture
def store(tmp_path) -> Iterator[Store]:
    store = Store(tmp_path / "locks.db")
    yield store
    store.locks.close()
    store.holder.close()
