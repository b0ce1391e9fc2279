"""How long a request may wait for its turn, and how long it may take after that; no I/O.

A client has only a few connections to its server, so a request may have to wait for a connection,
or for the request ahead of it at the same name. While requests of one client wait for each other,
that time does not count against the request timeout. The wait ends at the deadline of the whole
call. It ends earlier if a request ahead failed and no request was answered for several request
timeouts, because then the server is not answering and waiting is useless.
"""

from __future__ import annotations

from lockfast.model import FOREVER

SILENT_REQUEST_TIMEOUTS = 3
"""Number of request timeouts without an answer after which waiting requests give up. If it were
one, a machine that froze for a moment would fail all waiting requests because of a single one."""


class Turn:
    """One request's turn, which begins when the request gets its connection.

    `started_at` is when the turn began, or None before that. `patience` is how long the request may
    take from the beginning of its turn; if it is None, only the deadline of the call limits the
    request.
    """

    __slots__ = ("__weakref__", "_left", "patience", "started_at", "until")

    def __init__(self, patience: float | None = None) -> None:
        self.started_at: float | None = None
        self.patience: float | None = patience
        self.until: float = FOREVER
        """Deadline for the reply."""
        self._left = FOREVER if patience is None else patience

    def wait(self) -> None:
        """Start to wait for a connection."""
        self.started_at = None

    def come(self, now: float, *, deadline: float) -> float:
        """Begin the turn, because the request got its connection; return when the turn ends."""
        self.started_at = now
        self.until = min(deadline, now + self._left)
        return self.until

    def pause_until(self, until: float) -> None:
        """Give up the connection until the retry at `until`; the time until then counts as used."""
        if self.started_at is not None:
            self._left -= until - self.started_at


class Progress:
    """Tracks whether requests that wait in one queue or pool have reason to keep waiting."""

    __slots__ = ("_answered_at", "_failed_at")

    def __init__(self) -> None:
        self._answered_at = self._failed_at = -FOREVER

    def answered(self, now: float) -> None:
        """Record that a request was answered."""
        self._answered_at = now

    def failed(self, now: float) -> None:
        """Record that a request was not answered."""
        self._failed_at = now

    def ends_at(self, *, since: float, patience: float | None, deadline: float) -> float:
        """Return when a request that has waited since `since` gives up, as far as is known now."""
        heard_at = max(since, self._answered_at)
        if patience is None or self._failed_at <= heard_at:
            return deadline
        return min(deadline, heard_at + SILENT_REQUEST_TIMEOUTS * patience)
