"""What a client of a challenge plays with: a lock of Holdfast, or one of the broken ones.

Both are asked in the same words, so that neither the client nor the checker knows which it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self


class Refused(Exception):
    """A definite no: nothing was acquired, or what was held is over. All else is unknown."""


class Held(Protocol):
    """What was acquired."""

    @property
    def token(self) -> int | None:
        """The fencing token, where the lock has one."""

    def check(self) -> None:
        """Return if it may be acted upon; raise Refused if not. No I/O."""

    def release(self) -> None:
        """Give it back; raise Refused if it was over already."""


class Contender(Protocol):
    """One client's way to the locks of one store."""

    def acquire(self, name: str, *, timeout: float) -> Held:
        """Return what was acquired; raise Refused if it was not in time."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...


class MakesContenders(Protocol):
    """A class of locks: made in the client's own process, by its dotted name."""

    def __call__(self, url: str, *, ttl: float, clock_ahead: float) -> Contender:
        """`clock_ahead` is by how much this client's wall clock is wrong, for who asks one."""
