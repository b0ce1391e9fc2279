# Generated from src/lockfast/backends/sql/_async/sources.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""What the application has and lends: pools, engines, connections, and functions that connect.

They are known by what they can do, not by their class: none of these libraries has to be
installed. How long one of them waits is its own affair, and bounds nobody: see `lending`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lockfast.runtime import threads as runtime

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Lent:
    """A driver's connection, and what is given back for it."""

    connection: Any
    handle: Any


class Source:
    """Where connections come from and go back to; all that is called here is the application's."""

    room: int | None = None
    """How many it lends at once, None for any number."""
    is_ours = False
    """Whether what it gives is ours to keep and to close."""
    has_others = True
    """Whether a dead connection can be replaced by another."""
    lack = "its pool had none to lend; let that have more room, or give the locks one of their own"

    def why_none(self) -> str:
        """Return why it gave none in time, and what to do."""
        return self.lack

    def take(self, patience: float) -> Lent:
        """Return a connection; there is no use in waiting for it longer than so many seconds."""
        raise NotImplementedError

    def give_back(self, lent: Lent, *, is_whole: bool) -> None:
        """Take it back; one that is not whole must not be used again."""
        raise NotImplementedError

    def is_inherited(self) -> bool:
        """Whether, in a forked child, what it gives may be the parent's."""
        return True


class PoolSource(Source):
    """A pool of psycopg's."""

    def __init__(self, pool: Any) -> None:  # noqa: ANN401 - see above
        self.room = pool.max_size or None
        self._pool = pool

    def why_none(self) -> str:
        """See the source."""
        if self._pool.closed:
            return "open that pool, and close it after the locks"
        return self.lack

    def take(self, patience: float) -> Lent:
        """See the source."""
        connection = self._pool.getconn(timeout=patience)
        return Lent(connection, connection)

    def give_back(self, lent: Lent, *, is_whole: bool) -> None:
        """See the source."""
        try:
            if not is_whole:
                _end(lent.connection)
        finally:
            self._pool.putconn(lent.handle)


class EngineSource(Source):
    """An engine of SQLAlchemy's."""

    def __init__(self, engine: Any) -> None:  # noqa: ANN401 - see above
        self._engine = engine
        self._pool = engine.pool
        self.room = _room_of(self._pool)

    def take(self, patience: float) -> Lent:
        """See the source."""
        del patience  # it has its own
        handle = self._engine.connect()
        plain = getattr(handle, "sync_connection", handle)
        return Lent(plain.connection.driver_connection, handle)

    def give_back(self, lent: Lent, *, is_whole: bool) -> None:
        """See the source."""
        try:
            if not is_whole:
                lent.handle.invalidate()
        finally:
            lent.handle.close()

    def is_inherited(self) -> bool:
        """See the source; `dispose(close=False)` in the child gives the engine another pool."""
        return self._pool is self._engine.pool and type(self._pool).__name__ != "NullPool"


class ConnectionSource(Source):
    """One connection, which the application may use between our requests."""

    room = 1
    has_others = False
    lack = "your one connection was in use all the time; give a pool, or the URL"

    def __init__(self, connection: Any) -> None:  # noqa: ANN401 - see above
        self._connection = connection
        # psycopg's own keeps its cursors out while we are at work; other drivers have none.
        self._lock = getattr(connection, "lock", None) or runtime.Lock()

    def take(self, patience: float) -> Lent:
        """See the source."""
        del patience
        self._lock.acquire()
        return Lent(self._connection, self._connection)

    def give_back(self, lent: Lent, *, is_whole: bool) -> None:
        """See the source."""
        try:
            if not is_whole:
                _end(lent.connection)
        finally:
            self._lock.release()


class FactorySource(Source):
    """A function that connects; what it returns is ours."""

    is_ours = True
    lack = "the function that connects has not returned"

    def __init__(self, connect: Callable[[], Any]) -> None:
        self._connect = connect

    def take(self, patience: float) -> Lent:
        """See the source."""
        del patience
        connection = _awaited(self._connect())
        return Lent(connection, connection)

    def give_back(self, lent: Lent, *, is_whole: bool) -> None:
        """See the source."""
        del is_whole
        _end(lent.connection)

    def is_inherited(self) -> bool:
        """See the source; each is new."""
        return False


def _end(connection: Any) -> None:  # noqa: ANN401 - see above
    """Close the connection; PyMySQL refuses to do it twice, and would refuse the application."""
    if getattr(connection, "open", True):
        _awaited(connection.close())


def _awaited(answer: Any) -> Any:  # noqa: ANN401 - see above
    """Return the answer of a foreign function that may, or may not, have to be awaited."""
    return answer


def _room_of(pool: Any) -> int | None:  # noqa: ANN401 - see above
    if type(pool).__name__ == "AssertionPool":
        return 1
    # The overflow is told nowhere else; -1 is without end, as is a size of 0.
    size, overflow = getattr(pool, "size", None), getattr(pool, "_max_overflow", -1)
    return None if size is None or overflow < 0 or not size() else int(size() + overflow)
