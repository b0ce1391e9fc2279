# Generated from src/lockfast/sql_rows/_async/versioned.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""A table whose rows carry a version: whoever writes what another has changed is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockfast.connections._sync.callers import CallersConnection
from lockfast.core.backoff import delay
from lockfast.errors import ConfigurationError, StaleRow
from lockfast.options import checked_count
from lockfast.runtime import threads as runtime
from lockfast.runtime.clock import Clock
from lockfast.sql_rows.conflicts import is_conflict
from lockfast.sql_rows.tables import KeyedTable, columns
from lockfast.sql_rows.transactions import refuse_open
from lockfast.sql_rows.versions import VersionedRow, selected, updated, versioned

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lockfast.connections.dialects import Table

SHORTEST_PAUSE, LONGEST_PAUSE = 0.002, 0.5


class Versioned:
    """Rows that are written only as they were read: optimistic locking, without a lock.

    `key` names the column that tells the rows apart, or several; `version` a column of whole
    numbers, NOT NULL, which every writer raises. It stops nobody who writes past it.
    """

    def __init__(self, table: Table, *, key: str | Sequence[str], version: str = "version") -> None:
        self._keyed = KeyedTable.of(table, key)
        [self._version] = columns("version", version)

    def read(self, connection: Any, /, *key: object) -> VersionedRow | None:  # noqa: ANN401
        """Return the row with this key, or None; one value for each column of the key."""
        callers, key = CallersConnection(connection), self._keyed.checked_key(key)
        return self._read(callers, key)

    def write(
        self,
        connection: Any,  # noqa: ANN401 - anybody's
        row: VersionedRow,
        /,
        **changes: object,
    ) -> VersionedRow:
        """Change the row and return it as it is then; StaleRow if it is not as it was read.

        `current` of that error is the row as it is now, or None if it is gone. Nothing is
        committed here. On PostgreSQL above READ COMMITTED, and in a transaction of SQLite that
        has read before, the database refuses the write itself, by an error of the driver's.
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
        current = self._read(callers, row.key, as_it_is_now=True)
        now = "is gone" if current is None else f"has version {current.version} now"
        raise StaleRow(
            f"the row {row.key!r} of {keyed} was read at version {row.version}, and {now}",
            current=current,
        )

    def retry(
        self,
        connection: Any,  # noqa: ANN401 - anybody's
        /,
        *key: object,
        change: Callable[[VersionedRow], Mapping[str, object] | None],
        attempts: int = 20,
    ) -> VersionedRow:
        """Read, let `change` say what is to be changed, write and commit; again on StaleRow.

        `change` may be called several times, so it only decides; None changes nothing. There is
        no transaction while it does. Each pause is longer than the last, and another for
        everybody. LookupError if there is no such row; after the last attempt StaleRow.
        """
        checked_count("attempts", attempts)
        callers, clock = CallersConnection(connection), Clock()
        refuse_open(connection, callers.kind, what="retry()")
        key = self._keyed.checked_key(key)
        for attempt in range(attempts):
            try:
                return self._attempt(connection, key, change)
            except BaseException as error:
                connection.rollback()  # an interrupt's too: what is open was begun here
                is_stale = isinstance(error, StaleRow) or is_conflict(error)
                if not is_stale or attempt + 1 == attempts:
                    raise
            pause = delay(attempt, jitter=clock.jitter(), first=SHORTEST_PAUSE, most=LONGEST_PAUSE)
            runtime.sleep(pause)
        raise AssertionError("unreachable")

    def _attempt(
        self,
        connection: Any,  # noqa: ANN401 - anybody's
        key: Sequence[object],
        change: Callable[[VersionedRow], Mapping[str, object] | None],
    ) -> VersionedRow:
        row = self.read(connection, *key)
        # Whoever thinks in a transaction holds up others, and reads the same again next time.
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
        as_it_is_now: bool = False,
    ) -> VersionedRow | None:
        keyed = self._keyed
        statement = selected(keyed, callers.dialect, key, as_it_is_now=as_it_is_now)
        rows = callers.run(statement).named()
        return versioned(keyed, rows[0], self._version) if rows else None
