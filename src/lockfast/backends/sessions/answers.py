"""What a wire answers: frozen facts, each as the store told it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Opening:
    """A session that a quorum has agreed on: for how long it lives unheard, and from when."""

    granted: float
    opened_at: float
    """When it was asked for, on the client's clock."""


class Greeting(Protocol):
    """What a connection that was made anew says of the session."""

    granted: float
    """For how long it lives unheard, from now on; it may be less than before."""
    sent_at: float
    heard_at: float


@dataclass(frozen=True, slots=True)
class Beat:
    """A heartbeat that was answered.

    Only what a quorum confirmed proves anything: a leader that was deposed and does not know it
    answers all the same.
    """

    sent_at: float
    answered_at: float
    is_confirmed: bool
    """Whether a quorum has confirmed that the session lives."""
    proves_itself: bool = False
    """Whether that was asked for after the leader had heard this very heartbeat. Otherwise it
    confirms what was heard before it, and this one will be confirmed by the next."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What stands at a key."""

    data: bytes
    """As in `records`."""
    token: int
    age: float
    unchanged_for: float
    was_touched: bool
    """Whether its claim may have been admitted after it was listed, and nobody would say so."""


@dataclass(frozen=True, slots=True)
class Own:
    """Something in the store that our session keeps, and the claim that it stands for."""

    key: str
    claim_id: str
