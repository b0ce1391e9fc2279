# Generated from src/lockfast/sql_rows/_async/versioned.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""A table whose rows have a version; a write to a row fails if someone else has changed the row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockfast.core.backoff import delay
from lockfast.dbapi._sync.connection import CallersConnection
from lockfast.errors import ConfigurationError, StaleRow
from lockfast.options import checked_count
from lockfast.runtime import threads as runtime
from lockfast.runtime.clock import Clock
from lockfast.sql_rows.tables import KeyedTable, VersionedRow, columns, selected, updated, versioned
from lockfast.sql_rows.transactions import is_conflict, refuse_open

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lockfast.dbapi.statements import Table

CONFLICT_PAUSE_FIRST_SECONDS, CONFLICT_PAUSE_LONGEST_SECONDS = 0.002, 0.5


class Versioned:
    """Optimistic locking: rows are written only if they are unchanged since they were read.

    `key` names the column, or columns, that identify a row. `version` is an integer column, NOT
    NULL, that every writer increments. Writers that ignore the version are not stopped.
    """

    def __init__(self, table: Table, *, key: str | Sequence[str], version: str = "version") -> None:
        self._keyed = KeyedTable.of(table, key)
        [self._version] = columns("version", version)

    def read(self, connection: Any, /, *key: object) -> VersionedRow | None:  # noqa: ANN401
        """Return the row with this key, or None if there is none; pass one value per key column."""
        callers, key = CallersConnection(connection), self._keyed.checked_key(key)
        return self._read(callers, key)

    def write(
        self,
        connection: Any,  # noqa: ANN401 - any driver
        row: VersionedRow,
        /,
        **changes: object,
    ) -> VersionedRow:
        """Change the row and return its new state; raise StaleRow if it changed after it was read.

        The error's `current` is the current row, or None if the row is gone. Nothing is committed
        here. On PostgreSQL above READ COMMITTED, and in an SQLite transaction that has already
        read, the database itself rejects the write, with an error of the driver.
        """
        if not isinstance(row, VersionedRow):
            raise TypeError(f"row is what `read` returned, not {type(row).__name__}")
        keyed = self._keyed
        keyed.refuse_own(changes, self._version)
        callers = CallersConnection(connection)
        answer = callers.run(updated(keyed, callers.dialect, row, self._version, dict(changes)))
        if answer.changed > 1:
            raise ConfigurationError(
                f"{answer.changed} rows of {keyed} have this key, and all were changed: roll back, "
                f"and name columns that are unique together, not {', '.join(keyed.key)}"
            )
        if answer.changed == 1:
            after = {**row, **changes, self._version: row.version + 1}
            return VersionedRow(after, key=row.key, version=row.version + 1)
        current = self._read(callers, row.key, reads_latest=True)
        now = "is gone" if current is None else f"has version {current.version} now"
        raise StaleRow(
            f"the row {row.key!r} of {keyed} was read at version {row.version}, and {now}",
            current=current,
        )

    def retry(
        self,
        connection: Any,  # noqa: ANN401 - any driver
        /,
        *key: object,
        change: Callable[[VersionedRow], Mapping[str, object] | None],
        attempts: int = 20,
    ) -> VersionedRow:
        """Read the row, call `change` for the changes, write and commit; try again on StaleRow.

        `change` receives the row and returns the changes. It may be called several times, so it
        should have no side effects. If it returns None, nothing is changed. No transaction is open
        while `change` runs. The pause between attempts doubles, with random jitter. Raises
        LookupError if there is no such row, and StaleRow after the last attempt.
        """
        checked_count("attempts", attempts)
        callers, clock = CallersConnection(connection), Clock()
        refuse_open(connection, callers.kind, what="retry()")
        key = self._keyed.checked_key(key)
        for attempt in range(attempts):
            try:
                return self._attempt(connection, key, change)
            except BaseException as error:
                # Roll back on an interrupt too, because we have begun the open transaction.
                connection.rollback()
                is_stale = isinstance(error, StaleRow) or is_conflict(error)
                if not is_stale or attempt + 1 == attempts:
                    raise
            pause = delay(
                attempt,
                jitter=clock.jitter(),
                first=CONFLICT_PAUSE_FIRST_SECONDS,
                most=CONFLICT_PAUSE_LONGEST_SECONDS,
            )
            runtime.sleep(pause)
        raise AssertionError("unreachable")

    def _attempt(
        self,
        connection: Any,  # noqa: ANN401 - any driver
        key: Sequence[object],
        change: Callable[[VersionedRow], Mapping[str, object] | None],
    ) -> VersionedRow:
        row = self.read(connection, *key)
        # A transaction left open while `change` runs would block others, and a retry in it would
        # read the same row again.
        connection.commit()
        if row is None:
            raise LookupError(f"there is no row {tuple(key)!r} in {self._keyed}")
        changes = change(row)
        if changes is None:
            return row
        written = self.write(connection, row, **changes)
        connection.commit()
        return written

    def _read(
        self,
        callers: CallersConnection,
        key: Sequence[object],
        *,
        reads_latest: bool = False,
    ) -> VersionedRow | None:
        keyed = self._keyed
        statement = selected(keyed, callers.dialect, key, reads_latest=reads_latest)
        rows = callers.run(statement).named()
        return versioned(keyed, rows[0], self._version) if rows else None
