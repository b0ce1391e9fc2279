"""The text by which somebody else can ask whether a lease is still the one that holds.

Chubby calls it a sequencer: name, mode and token of a lock, and where it is. It is no secret,
and gives nobody any right; unlike the text of a lease that is handed over, it names no claim.
"""

from __future__ import annotations

import inspect
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from holdfast.core.naming import checked_name
from holdfast.core.packing import packed, unpacked
from holdfast.errors import ConfigurationError

if TYPE_CHECKING:
    from holdfast.model import Grant, Inspection

FORMAT = "holdfast-sequencer-1:"
EXCLUSIVE, SHARED = "exclusive", "shared"
_KINDS = {"name": str, "mode": str, "token": int, "store": str}


@dataclass(frozen=True, slots=True)
class Sequencer:
    """One hold, as the store knows it: no two of a name have the same token."""

    name: str
    mode: str
    token: int
    store: str

    def is_current_in(self, seen: Inspection) -> bool:
        """Whether this very hold is among those that the store tells of."""
        return any(
            one.token == self.token and mode_of(one.weight, seen.capacity) == self.mode
            for one in seen.holders
        )


def no_sequencers(name: str) -> ConfigurationError:
    """Return the error of a backend that cannot say for sure who holds."""
    return ConfigurationError(
        "this backend has no sequencers; fence by the token, if it has one", name=name
    )


def mode_of(weight: int, capacity: int) -> str:
    """Return whether others may hold beside it."""
    return EXCLUSIVE if weight >= capacity else SHARED


def to_text(grant: Grant, token: int, *, store: str) -> str:
    """Return what `from_text` reads."""
    claim = grant.claim
    mode = mode_of(claim.weight, claim.capacity)
    return packed(FORMAT, asdict(Sequencer(claim.name, mode, token, store)))


def from_text(text: str, *, store: str) -> Sequencer:
    """Return what a text says that is about this store; any other text is refused."""
    if not isinstance(text, str):
        awaited = "; await it" if inspect.isawaitable(text) else ""
        raise TypeError(f"a sequencer is a str, not {type(text).__name__}{awaited}")
    fields = unpacked(FORMAT, text, _KINDS)
    if fields is None or fields["mode"] not in (EXCLUSIVE, SHARED):
        raise ConfigurationError(
            "this is not the text of a sequencer: give it as `lease.sequencer` says it"
        )
    found = Sequencer(**fields)
    checked_name(found.name)  # it went through other hands
    if found.store != store:
        # Tokens compare within one store: that of another may be the same by chance.
        raise ConfigurationError(
            f"this sequencer is of the store at {found.store!r}, and this client asks {store!r}; "
            "ask the same store, by the same address"
        )
    return found
