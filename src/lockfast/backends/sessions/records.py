"""The records in the store: a name's capacity, a claim's owner, and the format of both."""

from __future__ import annotations

import json
from dataclasses import dataclass
from json.encoder import encode_basestring_ascii as json_string
from typing import TYPE_CHECKING, Protocol

from lockfast.errors import BackendUnavailable, ConfigurationError
from lockfast.model import FOREVER, Owner

if TYPE_CHECKING:
    from lockfast.model import Claim


# The return values of a transport: frozen facts as reported by the store.


@dataclass(frozen=True, slots=True)
class Opening:
    """A new session that a quorum has agreed on, with its timeout and its starting time."""

    granted: float
    opened_at: float
    """When the session was requested, on the client's clock."""


class SessionHandshake(Protocol):
    """What the handshake of a new connection says about the session."""

    granted: float
    """The session's timeout from now on, in seconds; it may be shorter than before."""
    sent_at: float
    heard_at: float


@dataclass(frozen=True, slots=True)
class KeepAliveReply:
    """An answered keep-alive.

    Only a reply that a quorum confirmed proves anything, because a leader that was deposed and has
    not noticed still answers.
    """

    sent_at: float
    answered_at: float
    is_confirmed: bool
    """Whether a quorum has confirmed that the session is alive."""
    proves_itself: bool = False
    """Whether the confirmation was requested after the leader had received this very keep-alive.
    Otherwise the reply confirms earlier contacts, and the next keep-alive will confirm this one."""


@dataclass(frozen=True, slots=True)
class SeenEntry:
    """An entry as it was found at a key."""

    data: bytes
    """The record, as written by `of_claim` or `of_closing`."""
    token: int
    age: float
    unchanged_for: float
    was_touched: bool
    """Whether the claim may have been admitted since the line was listed. In that case no later
    event reports the admission."""


@dataclass(frozen=True, slots=True)
class OwnEntry:
    """An entry that the store keeps for our session, and the claim that it belongs to."""

    key: str
    claim_id: str


# The state of a claim in its session.


class SessionClaim:
    """The state of one claim, with its entry once the store has reported the entry."""

    __slots__ = ("claim", "granted_at", "is_seen", "is_unanswered", "key", "token")

    def __init__(self, claim: Claim) -> None:
        self.claim: Claim = claim
        self.is_unanswered: bool = False
        """Whether the claim's arrival was sent and its outcome is unknown."""
        self.forget_entry()

    def forget_entry(self) -> None:
        """Return to the state without an entry, because the entry in the store is gone."""
        self.key: str | None = None
        self.token: int = 0
        self.granted_at: float = FOREVER
        self.is_seen: bool = False
        """Whether the last read found the entry and set a watch that reports the entry's end."""

    def record_entry(self, key: str, *, token: int) -> None:
        """Record the entry in one step, because an interrupt between two steps would orphan it."""
        self.key, self.token, self.is_unanswered = key, token, False


# The errors for an ended session and for unreadable records.


class SessionEnded(BackendUnavailable):
    """The session and all its claims have ended; a new session may be opened at once."""


class UnreadableRecord(ConfigurationError):
    """A record among ours was written by another program or by a newer Lockfast."""


def ended(*, where: str) -> SessionEnded:
    """Return the error for a request on a session that has ended."""
    return SessionEnded(f"{where}: the session ended; try again")


RECORD_FORMAT = 1


def of_door(capacity: int) -> bytes:
    """Return the record of a name."""
    return b'{"format": %d, "capacity": %d}' % (RECORD_FORMAT, capacity)


def capacity_in(data: bytes, *, key: str) -> int:
    """Return the capacity in a name's record; refuse a record that a newer Lockfast wrote."""
    try:
        fields = json.loads(data)
        written, capacity = int(fields["format"]), int(fields.get("capacity", 0))
    except (ValueError, KeyError, TypeError, AttributeError):
        written = capacity = 0
    if written > RECORD_FORMAT:
        raise UnreadableRecord(
            f"{key} was written by a newer Lockfast (format {written}, "
            f"this one knows {RECORD_FORMAT}); "
            "upgrade this program"
        )
    if capacity < 1:
        raise UnreadableRecord(
            f"{key} is a node of another program; choose a namespace of your own"
        )
    return capacity


def of_claim(claim: Claim) -> bytes:
    """Return the record of a claim."""
    return b'{"format": %d, "owner": %b}' % (RECORD_FORMAT, json_string(claim.owner).encode())


def of_closing(claim: Claim, *, seconds: float) -> bytes:
    """Return the record of a claim that has ended but keeps its name closed."""
    record = of_claim(claim)
    return b'%b, "closed_for": %.6f}' % (record[:-1], seconds)


def closed_for_in(data: bytes) -> float | None:
    """Return how long, since its last change, an entry keeps its name closed; None for a claim."""
    try:
        seconds = json.loads(data).get("closed_for")
    except (ValueError, AttributeError):
        return None
    return float(seconds) if isinstance(seconds, int | float) else None


def owner_in(data: bytes) -> Owner:
    """Return the owner in a claim's record; unreadable data is shown as it is."""
    try:
        return Owner.from_text(str(json.loads(data)["owner"]))
    except (ValueError, KeyError, TypeError):
        return Owner(host="unknown", pid=0, label=data[:80].decode(errors="replace"))
