# Generated from src/lockfast/sql_rows/_async/patience.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""How long a request waits for another's transaction, which may be the worker's own.

Then whoever could end it would wait for us, so no request may wait for longer than it is of use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from lockfast.connections.dialects import POSTGRESQL, SQLITE
from lockfast.connections.statements import Statement

if TYPE_CHECKING:
    from types import TracebackType

    from lockfast.connections._sync.callers import CallersConnection

_OF_SQLITE = "PRAGMA busy_timeout"


class Patience:
    """A block in which a connection waits for a lock no longer than so many seconds.

    Afterwards it waits as long as before: a pool may lend it to others. MySQL has no such setting
    for one transaction, and gives up by itself after innodb_lock_wait_timeout.
    """

    def __init__(self, callers: CallersConnection, seconds: float) -> None:
        self._callers = callers
        self._milliseconds = max(1, int(seconds * 1000))  # 0 is for ever, to PostgreSQL
        self._before = 0

    def __enter__(self) -> Self:
        if self._callers.dialect is SQLITE:
            [[self._before]] = self._callers.run(Statement(_OF_SQLITE)).rows
            self._set_sqlites(min(self._before, self._milliseconds))
        elif self._callers.dialect is POSTGRESQL:
            # Until the end of the transaction, as SET LOCAL, of which psycopg tells no outcome.
            setting = f"SELECT set_config('lock_timeout', '{self._milliseconds}', true)"
            self._callers.run(Statement(setting))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._callers.dialect is SQLITE:
            self._set_sqlites(self._before)

    def _set_sqlites(self, milliseconds: int) -> None:
        self._callers.run(Statement(f"{_OF_SQLITE} = {milliseconds}"))
