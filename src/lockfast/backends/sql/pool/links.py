"""What a pool has to know of a connection, whatever its store."""

from __future__ import annotations

from typing import Protocol

from lockfast.errors import BackendUnavailable, LockError


class Link(Protocol):
    """One connection, used by one request at a time; known before it is made."""

    used_at: float
    is_lent: bool
    """Whether it goes back to whom it belongs after each request."""

    @property
    def is_open(self) -> bool:
        """Whether it can be used, as far as is known here."""
        ...

    def is_sound(self) -> bool:
        """Whether the server still listens, as far as can be seen without asking it."""
        ...

    def close(self) -> None:
        """Let go of it, without waiting."""
        ...

    def disinherit(self) -> None:
        """Let go, in a forked child, of what the parent uses: without a word to the server."""
        ...


def none_free(*, where: str) -> LockError:
    """Return the error of a request that got no connection, so that nothing was asked."""
    return BackendUnavailable(f"{where}: no connection was free in time")
