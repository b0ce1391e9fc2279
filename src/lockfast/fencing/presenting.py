"""What a writer presents to a guard: a lease, or a name and token that its holder passed on.

A lease is first checked locally, by the clock; if the lease has ended, the resource need not be
asked. A holder that lets another process write passes on only a name and a token, and neither of
them proves an identity.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

from lockfast.core.lease_text import EXCLUSIVE, Sequencer, sequencer_from_text
from lockfast.core.naming import checked_name
from lockfast.errors import ConfigurationError, StaleToken, TokenUnavailable
from lockfast.options import checked_token


class HeldLease(Protocol):
    """The part of a lease, of either flavour, that a guard needs."""

    @property
    def name(self) -> str: ...
    @property
    def exclusive(self) -> bool: ...
    @property
    def token(self) -> int: ...
    def check(self) -> None: ...


Presented: TypeAlias = HeldLease | Sequencer | str | tuple[str, int]
"""A lease, the text of `lease.sequencer`, or a pair (name, token) from another process."""


def shown(presented: Presented) -> Sequencer:
    """Return the name and the token; raise LeaseLost if the lease is known to have ended.

    Tokens order only exclusive leases, so only exclusive leases are accepted. Raises
    TokenUnavailable for the lease of a reader or a semaphore, and for a backend without tokens.
    """
    if isinstance(presented, Sequencer):
        found = presented
    elif isinstance(presented, str):
        found = sequencer_from_text(presented)
    elif isinstance(presented, tuple):
        found = _of_pair(presented)
    elif not hasattr(presented, "exclusive"):
        raise TypeError(
            "a guard takes a lease, the text of its sequencer, or (name, token), not "
            f"{type(presented).__name__}"
        )
    elif not presented.exclusive:
        raise _shared(presented.name)
    else:
        presented.check()
        return Sequencer(presented.name, EXCLUSIVE, presented.token, "")
    if found.mode != EXCLUSIVE:
        raise _shared(found.name)
    checked_token(found.token)
    return found


def passed_on(presented: str | tuple[str, int], *, name: str | None = None) -> Sequencer:
    """Return the name and token that another process passed on, for use with a guard.

    `name` is the lock that protects this resource; any other lock is refused. Tokens can be
    compared only within one name of one store, and the text does not identify the store. Whether
    the lease comes from this store and still holds, only the store can say, with
    `locks.is_current(text)`.
    """
    found = shown(presented)
    if name is not None and found.name != name:
        raise ConfigurationError(
            f"a token of the lock {found.name!r} was passed on, and this is protected by {name!r}",
            name=found.name,
        )
    return found


def _of_pair(pair: tuple[str, int]) -> Sequencer:
    try:
        name, token = pair
    except ValueError:
        raise TypeError(f"a pair is (name, token), not {len(pair)} values") from None
    checked_name(name)
    if token is None:
        raise TypeError("a token is an int, not NoneType")
    return Sequencer(name, EXCLUSIVE, token, "")


def _shared(name: str) -> TokenUnavailable:
    return TokenUnavailable(
        f"the lease on {name!r} is shared: its token only numbers those who hold it together, and "
        "a guard would refuse the earlier of them; write under a lock, or the write side of "
        "a read-write lock",
        name=name,
    )


# The errors of guards, worded alike for all resources.


def stale(shown: Sequencer, seen: int, *, what: str) -> StaleToken:
    """Return the error for a write that came after a later holder's write; nothing was written."""
    return StaleToken(
        f"{what} has seen token {seen} of a later holder, and refuses token {shown.token} of "
        f"{shown.name!r}: that lease is over",
        name=shown.name,
        token=shown.token,
        seen=seen,
    )


def inexact(mark: int, token: int, *, what: str, column: str) -> ConfigurationError:
    """Return the error for a column that stores a number other than the token written to it."""
    return ConfigurationError(
        f"{what} has {mark} in its column {column!r}, where {token} was written: that type rounds "
        "tokens, so it would accept a stale one; make it a BIGINT"
    )


def whole_mark(found: Any, *, what: str) -> int:  # noqa: ANN401 - whatever is stored there
    """Return a resource's mark; raise unless it is a whole number, as guards write it."""
    try:
        mark = int(found)
    except (TypeError, ValueError, OverflowError):
        mark = None
    if mark is None or mark < 0 or not (isinstance(found, str | bytes) or mark == found):
        raise ConfigurationError(
            f"{what} has {found!r} where the largest token belongs: nobody else may write there"
        )
    return mark
