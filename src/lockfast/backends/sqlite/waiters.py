"""The claims of one client that stand in lines, by name and in the order of each line.

Only the first of them at a name looks: whether those in front of it are alive, and once per
window whether its turn has come. When it leaves, the next is told to look. So the looking
costs one question per client and name, however many wait, and no place is without a watch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lockfast.model import Claim


class Waiters:
    """Changed by the client's calls, which come one at a time; asked at any time."""

    def __init__(self) -> None:
        self._lines: dict[str, dict[str, int]] = {}
        self._first: dict[str, str] = {}
        self._ahead: dict[str, tuple[str, ...]] = {}

    @property
    def are_any(self) -> bool:
        """Whether any claim of ours stands in a line."""
        return bool(self._lines)

    def join(self, claim: Claim, *, arrived: int) -> str | None:
        """Know where the claim stands; return the one who has to look now, if it is another."""
        line = self._lines.setdefault(claim.name, {})
        if line.get(claim.id) == arrived:
            return None
        # Turned away and here again, it stands at the end: the order is that of arrival.
        line.pop(claim.id, None)
        line[claim.id] = arrived
        following = self._appoint(claim.name, line)
        return None if following == claim.id else following

    def leave(self, claim: Claim) -> str | None:
        """Forget the claim; return the one who has to look from now on, if it is another."""
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
        """Return where the claim stands, None if it does not."""
        line = self._lines.get(claim.name)
        return None if line is None else line.get(claim.id)

    def are_at(self, name: str) -> bool:
        """Whether any of ours stands in the line of this name."""
        return name in self._lines

    def is_first(self, claim: Claim) -> bool:
        """Whether this claim has to look."""
        first, line = self._first.get(claim.name), self._lines.get(claim.name, {})
        # After an interrupt the first may have gone without appointing the next: then all look.
        return first == claim.id or (claim.id in line and first not in line)

    def watch(self, claim: Claim, clients: Iterable[str]) -> None:
        """Let the claim look after these clients, who stand in front of it."""
        self._ahead[claim.id] = tuple(clients)

    def watched_by(self, claim: Claim) -> tuple[str, ...]:
        """Return whom the claim has to look after."""
        return self._ahead.get(claim.id, ())

    def clear(self) -> None:
        """Forget them all."""
        self._lines.clear()
        self._first.clear()
        self._ahead.clear()
