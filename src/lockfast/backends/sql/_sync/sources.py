# Generated from src/lockfast/backends/sql/_async/sources.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""Where borrowed connections come from: pools, engines, connections, and connect functions.

Sources are recognised by their attributes, not by their class, so that none of these libraries has
to be installed. A source may block for as long as it likes without delaying the caller; see
`borrowed`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lockfast.runtime import threads as runtime

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class BorrowedFrom:
    """A driver's connection, and the object that is given back to the source in its place."""

    connection: Any
    handle: Any


class Source:
    """Where connections come from and go back to; a source calls the application's code."""

    room: int | None = None
    """How many connections the source lends at once; None means any number."""
    is_ours = False
    """Whether the connections from this source are ours to keep and to close."""
    has_others = True
    """Whether the source can replace a dead connection."""
    lack = "its pool had none to lend; let that have more room, or give the locks one of their own"

    def why_none(self) -> str:
        """Return why the source gave no connection in time, and what to do about that."""
        return self.lack

    def take(self, patience: float) -> BorrowedFrom:
        """Return a connection; after `patience` seconds nobody waits for it any more."""
        raise NotImplementedError

    def give_back(self, lent: BorrowedFrom, *, is_whole: bool) -> None:
        """Give the connection back; unless `is_whole`, nobody may use the connection again."""
        raise NotImplementedError

    def is_inherited(self) -> bool:
        """Return whether, in a forked child, the source's connections may belong to the parent."""
        return True


class PoolSource(Source):
    """A psycopg pool."""

    def __init__(self, pool: Any) -> None:  # noqa: ANN401 - see above
        self.room = pool.max_size or None
        self._pool = pool

    def why_none(self) -> str:
        if self._pool.closed:
            return "open that pool, and close it after the locks"
        return self.lack

    def take(self, patience: float) -> BorrowedFrom:
        connection = self._pool.getconn(timeout=patience)
        return BorrowedFrom(connection, connection)

    def give_back(self, lent: BorrowedFrom, *, is_whole: bool) -> None:
        try:
            if not is_whole:
                _end(lent.connection)
        finally:
            self._pool.putconn(lent.handle)


class EngineSource(Source):
    """A SQLAlchemy engine."""

    def __init__(self, engine: Any) -> None:  # noqa: ANN401 - see above
        self._engine = engine
        self._pool = engine.pool
        self.room = _room_of(self._pool)

    def take(self, patience: float) -> BorrowedFrom:
        del patience  # the engine has its own timeout
        handle = self._engine.connect()
        plain = getattr(handle, "sync_connection", handle)
        return BorrowedFrom(plain.connection.driver_connection, handle)

    def give_back(self, lent: BorrowedFrom, *, is_whole: bool) -> None:
        try:
            if not is_whole:
                lent.handle.invalidate()
        finally:
            lent.handle.close()

    def is_inherited(self) -> bool:
        """Return false after `dispose(close=False)` in the child, which replaces the pool."""
        return self._pool is self._engine.pool and type(self._pool).__name__ != "NullPool"


class ConnectionSource(Source):
    """A single connection, which the application may use between our requests."""

    room = 1
    has_others = False
    lack = "your one connection was in use all the time; give a pool, or the URL"

    def __init__(self, connection: Any) -> None:  # noqa: ANN401 - see above
        self._connection = connection
        # psycopg's own lock keeps the application's cursors out while we use the connection;
        # connections of other drivers have no lock.
        self._lock = getattr(connection, "lock", None) or runtime.Lock()

    def take(self, patience: float) -> BorrowedFrom:
        del patience
        self._lock.acquire()
        return BorrowedFrom(self._connection, self._connection)

    def give_back(self, lent: BorrowedFrom, *, is_whole: bool) -> None:
        try:
            if not is_whole:
                _end(lent.connection)
        finally:
            self._lock.release()


class FactorySource(Source):
    """A function that connects; its connections are ours."""

    is_ours = True
    lack = "the function that connects has not returned"

    def __init__(self, connect: Callable[[], Any]) -> None:
        self._connect = connect

    def take(self, patience: float) -> BorrowedFrom:
        del patience
        connection = _awaited(self._connect())
        return BorrowedFrom(connection, connection)

    def give_back(self, lent: BorrowedFrom, *, is_whole: bool) -> None:
        del is_whole
        _end(lent.connection)

    def is_inherited(self) -> bool:
        """Return false, because each connection is new."""
        return False


def _end(connection: Any) -> None:  # noqa: ANN401 - see above
    """Close the connection if it is open.

    PyMySQL raises on a second close, even if the application did the first.
    """
    if getattr(connection, "open", True):
        _awaited(connection.close())


def _awaited(answer: Any) -> Any:  # noqa: ANN401 - see above
    """Return the result of a foreign function, after awaiting the result if it is awaitable."""
    return answer


def _room_of(pool: Any) -> int | None:  # noqa: ANN401 - see above
    if type(pool).__name__ == "AssertionPool":
        return 1
    # SQLAlchemy has the overflow only in this private attribute. An overflow of -1 or a size of 0
    # means unlimited.
    size, overflow = getattr(pool, "size", None), getattr(pool, "_max_overflow", -1)
    return None if size is None or overflow < 0 or not size() else int(size() + overflow)
