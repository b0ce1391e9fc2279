"""The lock that a challenge client contends for: Lockfast's, a broken one or somebody else's.

All have the same interface, so neither the client nor the checker knows which one it is. Most of
the interface is optional, so that a class around another library's lock takes a dozen lines:

    class Contender:
        def __init__(self, url, ttl):
            self._client = Redis.from_url(url)
            self._ttl = ttl

        def acquire(self, name, timeout):
            lock = self._client.lock(name, timeout=self._ttl)
            return lock if lock.acquire(blocking_timeout=timeout) else None

        def close(self):
            self._client.close()

The protocols below are the whole interface; `opened` and `as_held` supply what a class lacks.
"""

from __future__ import annotations

import importlib
import inspect
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType
    from typing import Self


class NotGranted(Exception):
    """A definite no: the lock was not acquired, or the hold has ended.

    To return None or False from `acquire`, or False from `check` or `release`, means the same.
    After any other error, the outcome is unknown.
    """


class NeverRaised(BaseException):
    """The lock raised something that it promises never to raise; this ends the client."""


class HeldLock(Protocol):
    """A lock that was acquired; only `release` is required.

    If the object also has a `deadline`, the holder may act until then, according to the last check.
    It is a time on the clock of `Clock.now`; a deadline that is no number is ignored.
    """

    @property
    def token(self) -> int | None:
        """The fencing token, or None if the lock has no tokens.

        A value that is no integer, such as the random id of a holder, counts as None.
        """

    def check(self) -> None:
        """Return if the holder may act; raise NotGranted otherwise.

        Lockfast's own does no I/O. A lock without `check` is trusted until it is released.
        """

    def release(self) -> None:
        """Release the lock; raise NotGranted if the hold had ended already."""


class Contender(Protocol):
    """One client's access to the locks of one store; only `acquire` is required.

    Instead of being a context manager the class may have a method `close`. If it has neither, it is
    not judged by the connections and threads that it leaves.

    A class may say more about its locks: `has_tokens` is whether they have fencing tokens, False by
    default, and `is_renewed` is whether a lease lasts as long as it is held, True by default. They
    decide which workloads are run without `--workload`. A second interrupt during the cleanup after
    an interrupt is suppressed if the class has a true `is_interrupted_once`.
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
    """A contender class, found by its dotted name and instantiated in the client's own process.

    It is passed the URL, and those of the two keywords that it has a parameter for.
    """

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


# What is done with a class that has only a part of the interface.


@contextmanager
def opened(
    make: ContenderFactory, url: str, *, ttl: float, clock_ahead: float
) -> Iterator[Contender]:
    """Make a contender, and close it at the end of the block as far as it can be closed."""
    made = make(url, **accepted(make, ttl=ttl, clock_ahead=clock_ahead))
    if hasattr(make, "__enter__"):
        with made as contender:
            yield contender
        return
    try:
        yield made
    finally:
        if is_closed_at_end(make):
            cast("Any", made).close()


def is_closed_at_end(make: ContenderFactory) -> bool:
    """Return whether the class has a way to close its connections."""
    return hasattr(make, "__exit__") or hasattr(make, "close")


def accepted(make: ContenderFactory, **options: float) -> dict[str, Any]:
    """Return the options that the class has a parameter for."""
    parameters = inspect.signature(make).parameters.values()
    if any(one.kind is one.VAR_KEYWORD for one in parameters):
        return dict(options)
    names = {one.name for one in parameters if one.kind is not one.POSITIONAL_ONLY}
    return {name: value for name, value in options.items() if name in names}


def as_held(held: object) -> HeldLock | None:
    """Return what `acquire` returned as a held lock; None if it is a definite no."""
    if held is None or held is False:
        return None
    if not callable(getattr(held, "release", None)):
        raise NeverRaised(
            f"acquire returned {held!r}, which has no method release: return the held lock, or "
            "None if it was not acquired"
        )
    return _Held(held)


class _Held:
    """A held lock with the parts that the original may lack."""

    def __init__(self, held: Any) -> None:  # noqa: ANN401 - a class of any library
        self._held = held

    @property
    def token(self) -> int | None:
        token = getattr(self._held, "token", None)
        return token if isinstance(token, int) and not isinstance(token, bool) else None

    @property
    def deadline(self) -> float | None:
        deadline = getattr(self._held, "deadline", None)
        return deadline if isinstance(deadline, float | int) else None

    def check(self) -> None:
        check = getattr(self._held, "check", None)
        if check is not None and check() is False:
            raise NotGranted("the lock said that it is not held")

    def release(self) -> None:
        if self._held.release() is False:
            raise NotGranted("the lock said that it was not held")
