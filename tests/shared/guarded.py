"""What the locks protect, and how it is fenced."""

from __future__ import annotations

from lockfast import StaleToken


class Guarded:
    """A resource that rejects a write with a smaller token than it has seen for that name."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}

    def write(self, name: str, token: int) -> None:
        """Accept a write with this token, or raise."""
        seen = self._seen.get(name, 0)
        if token < seen:
            raise StaleToken(f"{token} after {seen}", token=token, seen=seen)
        self._seen[name] = token
