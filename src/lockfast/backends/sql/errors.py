"""The error mapping that all SQL stores share, and the messages for removed options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from lockfast.errors import BackendUnavailable, ConfigurationError, LockError, OutcomeUnknown

if TYPE_CHECKING:
    from collections.abc import Mapping

# What the transport needs to know about a store's errors, and the messages that all stores share.

C = TypeVar("C", int, str)


class ErrorMapping(Protocol):
    """What a store's `errors` module provides: how to treat the errors of the store's driver."""

    def may_repeat(self, error: BaseException) -> bool:
        """Return whether a conflict rolled everything back, so that a retry may succeed."""
        ...

    def is_forbidden(self, error: BaseException | None) -> bool:
        """Return whether the server refused because this user lacks a permission."""
        ...

    def message_of(self, error: BaseException) -> str:
        """Return the driver's message, in one line."""
        ...

    def refused(self, error: BaseException, *, where: str) -> LockError:
        """Return the error to raise: OutcomeUnknown if something may have been committed."""
        ...

    def unreachable(self, error: BaseException, *, where: str) -> LockError:
        """Return the error for a connection that could not be made, so that no request was sent."""
        ...


def as_lock_error(
    code: C | None,
    configuration: Mapping[C, str],
    outage: Mapping[C, str],
    *,
    where: str,
    text: str,
) -> LockError | None:
    """Return the error for a server's error code; None if no mapping has the code."""
    if code is None:
        return None
    if code in configuration:
        return ConfigurationError(configuration[code].format(where=where, text=text))
    if code in outage:
        return BackendUnavailable(outage[code].format(where=where, text=text))
    return None


def unanswered(text: str, *, where: str) -> LockError:
    """Return the error for a request that was sent but got no definite answer."""
    return OutcomeUnknown(f"{where} did not answer: {text}")


def unanswered_after(error: OutcomeUnknown, refusal: LockError) -> LockError:
    """Return the error for an attempt that got no answer, after the server had refused one."""
    return OutcomeUnknown(f"{error}; it refused the attempt before: {refusal}")


def undone(text: str, *, where: str) -> LockError:
    """Return the error for a transaction that ended before its commit was sent."""
    return BackendUnavailable(f"{where} did not answer, and nothing was done: {text}")


def no_time(*, where: str) -> LockError:
    """Return the error for a request that could not be sent in time."""
    return BackendUnavailable(f"{where}: there was no time left to ask")


# The message for an option that the stores on SQL servers no longer have.


def advisory_mode(*, rights: str) -> dict[tuple[str, str], str]:
    """Return the entry for `mode=advisory`; `rights` are the privileges needed on the tables."""
    return {
        ("mode", "advisory"): (
            "leave the option out to keep locks as leases in two tables, which are created on "
            "first use. If this user may not create tables, have an administrator run `lockfast "
            "init URL`, or the statements that --dry-run prints, and grant this user "
            f"{rights}. How to move: docs/how-to/from-pg-advisory-lock.md"
        )
    }
