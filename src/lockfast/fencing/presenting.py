"""By what a writer shows that it may write: a lease, or what a lease's holder passed on.

A lease is first looked at here, by the local clock: whoever knows that its time is over need not
ask the resource. What was passed on is only a name and a token. Neither proves who somebody is.
"""

from __future__ import annotations

from typing import Protocol, TypeAlias

from lockfast.core.naming import checked_name
from lockfast.core.sequencing import EXCLUSIVE, Sequencer, from_text
from lockfast.errors import ConfigurationError, TokenUnavailable
from lockfast.options import checked_token


class HeldLease(Protocol):
    """A lease of either flavour, as far as a guard has to know."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def exclusive(self) -> bool: ...  # noqa: D102
    @property
    def token(self) -> int: ...  # noqa: D102
    def check(self) -> None: ...  # noqa: D102


Presented: TypeAlias = HeldLease | Sequencer | str | tuple[str, int]
"""A lease; the text of `lease.sequencer`; or (name, token), from another process."""


def shown(presented: Presented) -> Sequencer:
    """Return the name and the token, or raise: LeaseLost if the lease is known to be over.

    Only exclusive leases have an order among them, so only these are accepted:
    TokenUnavailable for a reader's, a semaphore's, and those of a backend without tokens.
    """
    if isinstance(presented, Sequencer):
        found = presented
    elif isinstance(presented, str):
        found = from_text(presented)
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
    """Return what another process passed on, for a guard; refuse another lock than expected.

    `name` is the lock that protects this resource. Tokens compare within one name of one store,
    and nothing that is passed on tells the store: whether it is this one's lease that holds, only
    the store can say, by `locks.is_current(text)`.
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
