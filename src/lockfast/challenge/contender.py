"""What a client of a challenge plays with: a lock of Lockfast, or one of the broken ones.

Both are asked in the same words, so that neither the client nor the checker knows which it is.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self


class Refused(Exception):
    """A definite no: nothing was acquired, or what was held is over. All else is unknown."""


class NeverRaised(BaseException):
    """What a lock promises never to raise came out of it: the client ends with that."""


class Held(Protocol):
    """What was acquired.

    If it has a `deadline` besides, that is until when, by its last check, it may be acted upon.
    """

    @property
    def token(self) -> int | None:
        """The fencing token, where the lock has one."""

    def check(self) -> None:
        """Return if it may be acted upon; raise Refused if not. No I/O."""

    def release(self) -> None:
        """Give it back; raise Refused if it was over already."""


class Contender(Protocol):
    """One client's way to the locks of one store.

    If it has a true `is_interrupted_once`, what an interrupt began is not struck by another.
    """

    def acquire(self, name: str, *, timeout: float) -> Held:
        """Return what was acquired; raise Refused if it was not in time."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...


class SharingContender(Contender, Protocol):
    """One that can also let several in at once, for the workloads that need it."""

    def acquire_share(self, name: str, *, weight: int, capacity: int, timeout: float) -> Held:
        """As `acquire`: a semaphore of that capacity, or a read-write lock where it is ALL."""


class MakesContenders(Protocol):
    """A class of locks: made in the client's own process, by its dotted name."""

    def __call__(self, url: str, *, ttl: float, clock_ahead: float) -> Contender:
        """`clock_ahead` is by how much this client's wall clock is wrong, for who asks one."""


class Imports(Protocol):
    """What such a class has besides, if its locks import more for some URLs than it does itself."""

    def imports(self, url: str) -> None:
        """Import that now, before the client is forked; no I/O, and no thread."""


class Surveys(Protocol):
    """What such a class has besides, if it can say what its locks promise and left behind."""

    def is_fair(self, url: str) -> bool:
        """Return whether those who wait are served in the order of their arrival."""

    @property
    def is_renewed(self) -> bool:
        """Whether a lease lasts for as long as it is held, however short its ttl is."""

    def left(self, url: str, name: str) -> list[str]:
        """Return who still holds the name or waits for it, each in words."""


def made_by(dotted: str) -> MakesContenders:
    """Return the class of contenders that is called so, as "module:name"."""
    module, _, name = dotted.partition(":")
    return cast("MakesContenders", getattr(importlib.import_module(module), name))
