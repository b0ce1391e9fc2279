"""The lock that a challenge client contends for: a Lockfast lock or a broken one.

Both have the same interface, so neither the client nor the checker knows which one it is.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self


class NotGranted(Exception):
    """A definite no: the lock was not acquired, or the hold has ended.

    After any other error, the outcome is unknown.
    """


class NeverRaised(BaseException):
    """The lock raised something that it promises never to raise; this ends the client."""


class HeldLock(Protocol):
    """A lock that was acquired.

    If the object also has a `deadline`, the holder may act until then, according to the last check.
    """

    @property
    def token(self) -> int | None:
        """The fencing token, or None if the lock has no tokens."""

    def check(self) -> None:
        """Return if the holder may act; raise NotGranted otherwise. This does no I/O."""

    def release(self) -> None:
        """Release the lock; raise NotGranted if the hold had ended already."""


class Contender(Protocol):
    """One client's access to the locks of one store.

    A second interrupt during the cleanup after an interrupt is suppressed if the class has a true
    `is_interrupted_once`.
    """

    def acquire(self, name: str, *, timeout: float) -> HeldLock:
        """Return the acquired lock; raise NotGranted if it was not acquired in time."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...


class SharingContender(Contender, Protocol):
    """A contender that can also admit several holders at once, as some workloads need."""

    def acquire_share(self, name: str, *, weight: int, capacity: int, timeout: float) -> HeldLock:
        """Like `acquire`, but on a semaphore; on a read-write lock if the capacity is ALL."""


class ContenderFactory(Protocol):
    """A contender class, found by its dotted name and instantiated in the client's own process."""

    def __call__(self, url: str, *, ttl: float, clock_ahead: float) -> Contender:
        """Return a contender; `clock_ahead` is the error of the client's wall clock, in seconds."""


class Imports(Protocol):
    """Optional part of a contender class: imports that its locks need for some URLs."""

    def imports(self, url: str) -> None:
        """Import modules for this URL before the client is forked; do no I/O, start no thread."""


class Surveys(Protocol):
    """Optional part of a contender class: reports what its locks guarantee and leave behind."""

    def is_fair(self, url: str) -> bool:
        """Return whether waiters are served in order of arrival."""

    @property
    def is_renewed(self) -> bool:
        """Whether a lease lasts as long as it is held, however short its ttl."""

    def left(self, url: str, name: str) -> list[str]:
        """Return the holders of the name and the clients that wait for it, each in words."""


def made_by(dotted: str) -> ContenderFactory:
    """Return the contender class with this dotted name, "module:name"."""
    module, _, name = dotted.partition(":")
    return cast("ContenderFactory", getattr(importlib.import_module(module), name))
