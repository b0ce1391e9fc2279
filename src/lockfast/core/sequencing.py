"""The text by which somebody else can ask whether a lease is still the one that holds.

Chubby calls it a sequencer: name, mode and token of a lock. It is no secret, and gives nobody
any right; unlike the text of a lease that is handed over, it names no claim.

Tokens compare within one name of one store: in another namespace, table or server the same one
may be given for the same name. An address does not tell those apart, and the same store has
several. So a sequencer also says which hold it means, by what no other hold anywhere has.
"""

from __future__ import annotations

import hashlib
import inspect
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from lockfast.core.naming import checked_name
from lockfast.core.packing import packed, unpacked
from lockfast.errors import ConfigurationError

if TYPE_CHECKING:
    from lockfast.model import Grant, Inspection

FORMAT = "lockfast-sequencer-1:"
EXCLUSIVE, SHARED = "exclusive", "shared"
_KINDS = {"name": str, "mode": str, "token": int, "hold": str}


@dataclass(frozen=True, slots=True)
class Sequencer:
    """One hold, as the store knows it: no two of a name have the same token."""

    name: str
    mode: str
    token: int
    hold: str

    def is_current_in(self, seen: Inspection) -> bool:
        """Whether this very hold is among those that the store tells of."""
        return any(
            one.token == self.token
            and one.hold == self.hold
            and mode_of(one.weight, seen.capacity) == self.mode
            for one in seen.holders
        )

    def to_text(self) -> str:
        """Return what `from_text` reads."""
        return packed(FORMAT, asdict(self))


def no_sequencers(name: str) -> ConfigurationError:
    """Return the error of a backend that cannot say for sure who holds."""
    return ConfigurationError(
        "this backend has no sequencers; fence by the token, if it has one", name=name
    )


def mode_of(weight: int, capacity: int) -> str:
    """Return whether others may hold beside it."""
    return EXCLUSIVE if weight >= capacity else SHARED


def hold_of(claim_id: str, *, party: str | None) -> str:
    """Return by what a hold is known to those who must not know its claim.

    The hold that an explicit owner's claims share outlasts each of them: nothing of it is random,
    and its name and token alone say which it is.
    """
    if party is not None:
        return ""
    return hashlib.blake2b(claim_id.encode(), digest_size=16).hexdigest()


def sequencer_of(grant: Grant, token: int) -> Sequencer:
    """Return what tells of the hold that was granted."""
    claim = grant.claim
    mode = mode_of(claim.weight, claim.capacity)
    return Sequencer(claim.name, mode, token, hold_of(claim.id, party=claim.party))


def from_text(text: str) -> Sequencer:
    """Return what the text of a sequencer says; any other text is refused."""
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
    return found
