"""Which names are known to have a row, so that taking one needs no upsert."""

from __future__ import annotations

MOST = 4096
"""As many are remembered; a lock per order id must not fill the memory."""


class KnownNames:
    """The names that this client has met.

    One that was swept since is refused as if it were taken, and goes through the door, which
    makes it anew.
    """

    def __init__(self) -> None:
        self._names: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def add(self, name: str) -> None:
        """Know that the name has a row."""
        if len(self._names) >= MOST:
            self._names = set()
        self._names.add(name)
