"""What the wire has to know of a store's errors, and the sentences that are the same for all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from lockfast.errors import BackendUnavailable, ConfigurationError, LockError, OutcomeUnknown

if TYPE_CHECKING:
    from collections.abc import Mapping

C = TypeVar("C", int, str)


class Refusals(Protocol):
    """What a store's module `refusals` offers: a driver's error, and what to make of it."""

    def may_repeat(self, error: BaseException) -> bool:
        """Whether all was rolled back for another's sake, and once more may well succeed."""
        ...

    def is_forbidden(self, error: BaseException | None) -> bool:
        """Whether the server said that this user may not do this."""
        ...

    def words_of(self, error: BaseException) -> str:
        """Return what it says, in one line."""
        ...

    def refused(self, error: BaseException, *, where: str) -> LockError:
        """Return what to tell of it: OutcomeUnknown if something may have been committed."""
        ...

    def unreachable(self, error: BaseException, *, where: str) -> LockError:
        """Return the error behind a connection that could not be made: nothing was asked."""
        ...


def told(
    code: C | None,
    configuration: Mapping[C, str],
    outage: Mapping[C, str],
    *,
    where: str,
    text: str,
) -> LockError | None:
    """Return what a store's tables say to a code of its server's, None if they know it not."""
    if code is None:
        return None
    if code in configuration:
        return ConfigurationError(configuration[code].format(where=where, text=text))
    if code in outage:
        return BackendUnavailable(outage[code].format(where=where, text=text))
    return None


def unanswered(text: str, *, where: str) -> LockError:
    """Return the error of a request that was sent and not answered, or not for certain."""
    return OutcomeUnknown(f"{where} did not answer: {text}")


def undone(text: str, *, where: str) -> LockError:
    """Return the error of a transaction that ended before it was to be committed."""
    return BackendUnavailable(f"{where} did not answer, and nothing was done: {text}")


def no_time(*, where: str) -> LockError:
    """Return the error of a request for which there was no time left to send it."""
    return BackendUnavailable(f"{where}: there was no time left to ask")
