"""At which names others were met: there the single statements of an uncontended lock are in vain.

Each of those takes the file's one write lock, also to find that it can do nothing. A name that
is here goes through the door at once. It is only a guess, which is right or costs a little.
"""

from __future__ import annotations

MOST = 4096
"""As many are remembered; a lock per order id must not fill the memory."""


class CrowdedNames(set[str]):
    """Of one client; whoever turns out to be alone there is discarded."""

    def add(self, name: str) -> None:
        """Know that somebody else was at the name."""
        if len(self) >= MOST:
            self.clear()
        super().add(name)
