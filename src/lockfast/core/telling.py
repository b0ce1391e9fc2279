"""What is told of a client, before it is an event: notes, which cost next to nothing to take.

An event is a frozen value of many fields, and Python takes longer to make one than to note what
it is made of. So whoever acquires or releases leaves a note, and the event is made where it is
delivered, beside the work.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

from lockfast.core.sharding import Elsewhere
from lockfast.errors import (
    BackendError,
    BackendMisbehaved,
    BackendUnavailable,
    LeaseLost,
    LocksClosed,
    NotAcquired,
    OutcomeUnknown,
    WouldDeadlock,
)
from lockfast.events import (
    Acquired,
    AtRisk,
    Detached,
    Event,
    Lost,
    Reconnected,
    Released,
    Renewed,
    SafeAgain,
    Skipped,
    StoreError,
    TimedOut,
    Waiting,
    Withdrawn,
)
from lockfast.model import ALL, Claim

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.events import Kind, StoreTrouble, WithdrawalReason

Note: TypeAlias = tuple[Any, ...]
"""Which event, of which claim, its token, when, what a sink captured, and three facts: its own
fields, or None.

One tuple, and not one for the facts within another: until it is delivered it is something that
Python's collector has to look at, and that was felt.
"""

AT: Final = 3
"""Where a note says when it was."""

FACTS: Final = 5
"""Where the facts begin in a note."""

LEVELS: dict[type[Event], int] = {
    AtRisk: logging.WARNING,
    SafeAgain: logging.WARNING,
    Lost: logging.WARNING,
    Reconnected: logging.INFO,
    **dict.fromkeys(
        (
            Waiting,
            Acquired,
            TimedOut,
            Skipped,
            Withdrawn,
            Renewed,
            Released,
            Detached,
            StoreError,
        ),
        logging.DEBUG,
    ),
}
"""How loud each is in the log: contention is everyday, and a store's silence is told as risk."""

OWN_FIELDS: Final = {
    kind: len(kind.__dataclass_fields__) - len(Event.__dataclass_fields__) for kind in LEVELS
}
"""How many fields only this kind of event has."""

URGENT = frozenset({Lost, AtRisk})
"""Delivered at once: somebody may still stop in time."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Which claims of a client hold and which wait, at one moment, whatever was told of them."""

    client: str
    held: Sequence[Claim]
    waiting: Sequence[Claim]


class Sink:
    """A hook of our own, which takes notes as they are, many at a time."""

    def __call__(self, event: Event) -> None:
        """Take an event, as any hook does."""
        raise NotImplementedError

    def take(self, notes: Sequence[Note], owner: str, store: str) -> None:
        """Take what has happened since the last call, in its order."""
        raise NotImplementedError

    def set_right(self, standing: Standing, store: str) -> None:
        """Know how a client stands, of which not everything was heard: there was too much."""
        raise NotImplementedError

    def capture(self) -> object:
        """Return what is to be known of the moment itself; on the thread or task it happens in."""
        return None

    captures: ClassVar[bool] = False
    """Whether `capture` is to be asked at all."""


def kind_of(claim: Claim) -> Kind:
    """Return what was asked for, from how much of how much the claim takes."""
    if claim.capacity == 1:
        return "lock"
    if claim.capacity < ALL:
        return "semaphore"
    return "write" if claim.weight == ALL else "read"


def facts_of(note: Note) -> Sequence[Any]:
    """Return the event's own fields, in their order."""
    return note[FACTS : FACTS + OWN_FIELDS[note[0]]]


def event_of(note: Note, *, owner: str, store: str) -> Event:
    """Return the event that the note is about."""
    kind: type[Event]
    claim: Claim | None
    kind, claim, token, at = note[:4]
    if claim is None:
        return kind("", token, owner, *facts_of(note), store=store, at=at)
    return kind(
        claim.name,
        token,
        owner,
        *facts_of(note),
        kind=kind_of(claim),
        store=store,
        claim=claim.id,
        at=at,
    )


def store_of(backend: object) -> str:
    """Return what kind of store a backend asks: the name of its room, or what it says itself."""
    said = getattr(backend, "store", None)
    if isinstance(said, str) and said:
        return said
    parts = type(backend).__module__.split(".")
    return parts[2] if parts[:2] == ["lockfast", "backends"] else parts[0]


def level_of(event: Event) -> int:
    """Return how loud an event is; a loss by closing is the application's own doing."""
    if isinstance(event, Lost) and event.reason == "closed":
        return logging.INFO
    return LEVELS[type(event)]


def sentence(event: Event) -> str:
    """Return the line of the log."""
    if isinstance(event, Lost):
        loss = LeaseLost(name=event.name, token=event.token, reason=event.reason, hint=event.cause)
        return f"{loss}; its token is {event.token}"
    if isinstance(event, AtRisk):
        return (
            f"lease on {event.name!r} is at risk: it has not been renewed, "
            f"{event.remaining:.1f} s left"
        )
    if isinstance(event, SafeAgain):
        return (
            f"lease on {event.name!r} is safe again: it was renewed, {event.remaining:.1f} s left"
        )
    if isinstance(event, Reconnected):
        return f"the store answers again, {event.away:.1f} s after the first request that failed"
    said = "".join(f" {name}={_short(getattr(event, name))}" for name in own_fields(event))
    about = f" {event.name!r} token={event.token}" if event.name else ""
    return f"{type(event).__name__}{about}{said}"


def own_fields(event: Event) -> list[str]:
    """Return the fields that only this kind of event has."""
    return [one for one in event.__dataclass_fields__ if one not in Event.__dataclass_fields__]


def _short(value: object) -> object:
    return round(value, 3) if isinstance(value, float) else value


def trouble_of(error: BaseException) -> StoreTrouble | None:
    """Return what became of a request that failed so; None if that is not the store's doing."""
    if isinstance(error, OutcomeUnknown):
        return "unknown"
    if isinstance(error, BackendUnavailable):
        return "unavailable"
    if isinstance(error, BackendMisbehaved):
        return "misbehaved"
    return "refused" if isinstance(error, BackendError) else None


def withdrawn_by(error: BaseException) -> WithdrawalReason:
    """Return why an acquire ended that ended so."""
    if isinstance(error, BackendError | OutcomeUnknown):
        return "store_error"
    if isinstance(error, LocksClosed):
        return "closed"
    if isinstance(error, WouldDeadlock):
        return "deadlock"
    if isinstance(error, Elsewhere):
        return "replaced"
    # What is no Exception is a cancellation, or an interrupt.
    is_cancelled = isinstance(error, NotAcquired) or not isinstance(error, Exception)
    return "cancelled" if is_cancelled else "refused"
