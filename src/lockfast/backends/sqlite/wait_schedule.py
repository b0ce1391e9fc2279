"""The waiting claims of one client, by name and in the order of each line.

Only the client's first claim at a name checks whether the clients ahead of it are alive and, once
per admission window, whether it was admitted. When that claim leaves, the client's next claim is
woken to check. So the checks cost one query per client and name, however many claims wait, and no
entry goes unwatched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lockfast.model import Claim

LIVENESS_CHECK_SECONDS = 0.3
"""Interval at which a first claim checks whether the clients ahead are alive, in seconds.

The check runs no statement.
"""

SHORT_WAIT_SECONDS = 2 * LIVENESS_CHECK_SECONDS
"""A claim that has at most this many seconds left to wait checks at once, because its time could be
up before the first regular check."""


class Waiters:
    """One client's waiting claims, by name.

    The client's calls, which come one at a time, change this object. Any thread may read it at any
    time.
    """

    def __init__(self) -> None:
        self._lines: dict[str, dict[str, int]] = {}
        self._first: dict[str, str] = {}
        self._ahead: dict[str, tuple[str, ...]] = {}

    @property
    def has_waiters(self) -> bool:
        """Whether any claim of ours waits in a line."""
        return bool(self._lines)

    def join(self, claim: Claim, *, arrived: int) -> str | None:
        """Record the claim's arrival; return the other claim, if any, that has to check now."""
        line = self._lines.setdefault(claim.name, {})
        if line.get(claim.id) == arrived:
            return None
        # A claim that was turned away and came back goes to the end, because claims are in order of
        # arrival.
        line.pop(claim.id, None)
        line[claim.id] = arrived
        following = self._appoint(claim.name, line)
        return None if following == claim.id else following

    def leave(self, claim: Claim) -> str | None:
        """Forget the claim; return the claim that takes over the checks, if any."""
        self._ahead.pop(claim.id, None)
        line = self._lines.get(claim.name)
        if line:
            line.pop(claim.id, None)
        if line:
            return self._appoint(claim.name, line)
        self._lines.pop(claim.name, None)
        self._first.pop(claim.name, None)
        return None

    def _appoint(self, name: str, line: dict[str, int]) -> str | None:
        first = next(iter(line))
        if self._first.get(name) == first:
            return None
        self._first[name] = first
        return first

    def arrival_of(self, claim: Claim) -> int | None:
        """Return the claim's arrival; None if the claim does not wait."""
        line = self._lines.get(claim.name)
        return None if line is None else line.get(claim.id)

    def is_waiting_at(self, name: str) -> bool:
        """Return whether any claim of ours waits at this name."""
        return name in self._lines

    def is_first(self, claim: Claim) -> bool:
        """Return whether this claim has to check the clients ahead and its admission."""
        first, line = self._first.get(claim.name), self._lines.get(claim.name, {})
        # After an interrupt the first claim may have left without appointing the next one. In that
        # case all claims at the name check.
        return first == claim.id or (claim.id in line and first not in line)

    def watch(self, claim: Claim, clients: Iterable[str]) -> None:
        """Record the clients that the claim has to watch, because they are ahead of it."""
        self._ahead[claim.id] = tuple(clients)

    def watched_by(self, claim: Claim) -> tuple[str, ...]:
        """Return the clients that the claim has to watch."""
        return self._ahead.get(claim.id, ())

    def clear(self) -> None:
        """Forget all claims."""
        self._lines.clear()
        self._first.clear()
        self._ahead.clear()
