"""Idle names go after a day: a lock per order id must not fill the file for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lockfast.backends.sqlite.connection import Connection

SWEEP_AFTER = 24 * 3600.0
"""An idle record may go once its last token is this far behind the store's clock."""

SWEEP_EVERY = 64
SWEEP_ROWS = 256


class Broom:
    """Sweeps a few rows at a time, from where it stopped: no caller should pay for all."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._from = b""
        self._until_next = 0

    def sweep_now_and_then(self, deadline: float) -> None:
        """Call it after each release."""
        self._until_next -= 1
        if self._until_next > 0:
            return
        self._until_next = SWEEP_EVERY
        idle = self._connection.patiently(self._look, deadline)
        if idle:
            # Only now a transaction: in one, a signal handler's own call would be refused.
            self._connection.transact(lambda: self._delete(idle), deadline)

    def _look(self) -> list[tuple[bytes, int]]:
        rows = self._connection.execute(
            "SELECT key, last_token, id != '' OR arrived > 0 FROM places WHERE key > ?"
            " ORDER BY key, arrived LIMIT ?",
            (self._from, SWEEP_ROWS),
        ).fetchall()
        is_all = len(rows) < SWEEP_ROWS
        # The last key's claims may lie beyond the limit, unseen.
        busy = {key for key, _, is_busy in rows if is_busy} | {rows[-1][0] if not is_all else b""}
        limit = (self._connection.now() - SWEEP_AFTER) * 1_000_000
        self._from = b"" if is_all else rows[-1][0]
        return [(key, token) for key, token, _ in rows if key not in busy and token < limit]

    def _delete(self, idle: list[tuple[bytes, int]]) -> None:
        # What the next boot must stay above, though nobody remembers the names.
        floor = max(token for _, token in idle)
        self._connection.execute("UPDATE meta SET floor = max(floor, ?)", (floor,))
        # Unless somebody has come since the look.
        self._connection.execute_many(
            "DELETE FROM places WHERE key = ? AND id = '' AND last_token = ?"
            " AND NOT EXISTS (SELECT 1 FROM places WHERE key = ? AND arrived > 0)",
            [(key, token, key) for key, token in idle],
        )
