"""How long a request may wait for its turn, and how long it may take once it has it; no I/O.

A client asks its server on a few connections, so a request may have to wait: for a connection, or
for the request ahead of it at the same name. The rule, for every place where requests of one
client wait for each other: that wait does not count against the request timeout. It ends at the
deadline of the whole call. It ends earlier if a request of those ahead was not answered, and none
for several request timeouts: then it is the server that does not answer, and waiting is no use.
"""

from __future__ import annotations

NEVER = float("inf")

SILENT_REQUEST_TIMEOUTS = 3
"""For how many request timeouts a server is silent before those who wait give up. After one, a
machine that stood still for a moment would fail a whole crowd because of one of its requests."""


class Turn:
    """One request's turn: `came_at` is when it got its connection, None until it has.

    Without `patience` the deadline of the call is all that limits it.
    """

    __slots__ = ("__weakref__", "_left", "came_at", "patience", "until")

    def __init__(self, patience: float | None = None) -> None:
        self.came_at: float | None = None
        self.patience: float | None = patience
        self.until: float = NEVER
        """When it has to be answered."""
        self._left = NEVER if patience is None else patience

    def wait(self) -> None:
        """Wait for a connection."""
        self.came_at = None

    def come(self, now: float, *, deadline: float) -> float:
        """Start the request's own time, and return until when it lasts."""
        self.came_at = now
        self.until = min(deadline, now + self._left)
        return self.until

    def give_way(self, until: float) -> None:
        """Go without the connection until then, to repeat the request: that counts as used."""
        if self.came_at is not None:
            self._left -= until - self.came_at


class Progress:
    """Whether those who wait at one place have reason to go on waiting."""

    __slots__ = ("_answered_at", "_failed_at")

    def __init__(self) -> None:
        self._answered_at = self._failed_at = -NEVER

    def answered(self, now: float) -> None:
        """Note that a request was answered."""
        self._answered_at = now

    def failed(self, now: float) -> None:
        """Note that a request was not."""
        self._failed_at = now

    def ends_at(self, *, since: float, patience: float | None, deadline: float) -> float:
        """Return when somebody who has waited since then gives up, as far as is known now."""
        heard_at = max(since, self._answered_at)
        if patience is None or self._failed_at <= heard_at:
            return deadline
        return min(deadline, heard_at + SILENT_REQUEST_TIMEOUTS * patience)
