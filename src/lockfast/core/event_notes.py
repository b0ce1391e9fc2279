"""Notes of what happened, and how notes become events and log lines."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from lockfast.core.sharding import MoveToShard
from lockfast.errors import (
    BackendError,
    BackendMisbehaved,
    BackendUnavailable,
    LeaseLost,
    LocksClosed,
    NotAcquired,
    OutcomeUnknown,
    WouldDeadlock,
    held_text,
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

    from lockfast.events import Kind, LossReason, StoreRequest, StoreTrouble, WithdrawalReason
    from lockfast.model import Held

# Notes: a cheap record of something that happened to a client, from which an event can be created.
#
# An event is a frozen value with many fields, and Python takes longer to create it than to create a
# note with its ingredients. So an acquire or release leaves a note, and the event is created where
# it is delivered, off the hot path.

NO_CLAIM: Final = Claim(id="", name="", client="", owner="", weight=1, capacity=1, ttl=0.0)
"""The claim of an event that concerns no claim, or several."""


class EventNote:
    """The ingredients of an event; `facts` are the fields that only this kind of event has.

    `captured` is what the receiving sink's `capture` returned where the event happened.
    """

    __slots__ = ("at", "captured", "claim", "facts", "kind", "token")

    def __init__(  # noqa: PLR0917 - called at every acquire, where keywords would cost too much
        self,
        kind: type[Event],
        claim: Claim,
        token: int | None,
        at: float,
        captured: object,
        facts: tuple[Any, ...],
    ) -> None:
        self.kind: type[Event] = kind
        self.claim: Claim = claim
        self.token: int | None = token
        self.at: float = at
        self.captured: object = captured
        self.facts: tuple[Any, ...] = facts


LOG_LEVELS: dict[type[Event], int] = {
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
"""The log level of each event: contention is normal, and a silent store is reported as a risk."""

URGENT_EVENTS = frozenset({Lost, AtRisk})
"""Events that are delivered at once, because the holder may still be able to stop in time."""


@dataclass(frozen=True, slots=True)
class ClientSnapshot:
    """The claims of a client that hold, and those that wait, at one moment."""

    client: str
    held: Sequence[Claim]
    waiting: Sequence[Claim]


class NoteSink:
    """A hook of our own, which receives batches of notes instead of single events."""

    def __call__(self, event: Event) -> None:
        """Receive an event, as any hook does."""
        self.take([note_of(event)], owner=event.owner, store=event.store)

    def take(self, notes: Sequence[EventNote], owner: str, store: str) -> None:
        """Receive the notes since the last call, in order."""
        raise NotImplementedError

    def set_right(self, snapshot: ClientSnapshot, store: str) -> None:
        """Replace the known state of a client, after some of too many notes were dropped."""
        raise NotImplementedError

    def capture(self) -> object:
        """Return context for a note; called on the thread or task where the event happens."""
        return None

    captures: ClassVar[bool] = False
    """Whether `capture` is called at all."""


class EventObserver:
    """Receives notes through one method for each kind of event; override the methods of interest.

    Each method takes the note, and the fields that only its kind of event has.
    """

    __slots__ = ()

    def waiting(self, note: EventNote, place: int | None, /) -> None:
        """A wait has begun; `lockfast.events` describes each event and its fields."""

    def acquired(self, note: EventNote, waited: float, ttl: float, renews: bool, /) -> None:  # noqa: FBT001
        """An acquire ended in a lease."""

    def timed_out(self, note: EventNote, waited: float, place: int | None, /) -> None:
        """An acquire gave up."""

    def skipped(self, note: EventNote, /) -> None:
        """The lock was held, and the caller did not want to wait."""

    def withdrawn(self, note: EventNote, waited: float, reason: WithdrawalReason, /) -> None:
        """An acquire ended with neither a lease nor a timeout."""

    def renewed(self, note: EventNote, margin: float, /) -> None:
        """A lease was renewed."""

    def at_risk(self, note: EventNote, remaining: float, /) -> None:
        """A renewal was not answered."""

    def safe_again(self, note: EventNote, remaining: float, /) -> None:
        """A lease at risk was renewed."""

    def lost(self, note: EventNote, reason: LossReason, held: float, cause: str, /) -> None:
        """A lease may no longer be used."""

    def released(self, note: EventNote, held: float, /) -> None:
        """A lease was ended by its holder."""

    def detached(self, note: EventNote, held: float, /) -> None:
        """A lease was detached."""

    def store_error(
        self, note: EventNote, request: StoreRequest, reason: StoreTrouble, message: str, /
    ) -> None:
        """A request to the store failed."""

    def reconnected(self, note: EventNote, away: float, /) -> None:
        """The store answers again."""


OBSERVER_METHODS: Final[dict[type[Event], str]] = {
    Waiting: "waiting",
    Acquired: "acquired",
    TimedOut: "timed_out",
    Skipped: "skipped",
    Withdrawn: "withdrawn",
    Renewed: "renewed",
    AtRisk: "at_risk",
    SafeAgain: "safe_again",
    Lost: "lost",
    Released: "released",
    Detached: "detached",
    StoreError: "store_error",
    Reconnected: "reconnected",
}
"""The method of an `EventObserver` for each event."""


def dispatch(note: EventNote, observer: EventObserver) -> None:
    """Call the observer's method for this kind of event; an unknown kind is ignored."""
    method = OBSERVER_METHODS.get(note.kind)
    if method is not None:
        getattr(observer, method)(note, *note.facts)


def kind_of(claim: Claim) -> Kind:
    """Return the kind of lock requested, from the claim's weight and capacity."""
    if claim.capacity == 1:
        return "lock"
    if claim.capacity < ALL:
        return "semaphore"
    return "write" if claim.weight == ALL else "read"


_WEIGHT_AND_CAPACITY: Final[dict[Kind, tuple[int, int]]] = {
    "lock": (1, 1),
    "semaphore": (1, 2),
    "read": (1, ALL),
    "write": (ALL, ALL),
}
"""For each kind, a weight and capacity from which `kind_of` returns that kind."""


def event_of(note: EventNote, *, owner: str, store: str) -> Event:
    """Return the event that the note describes."""
    claim = note.claim
    return note.kind(
        claim.name,
        note.token,
        owner,
        *note.facts,
        kind=kind_of(claim),
        store=store,
        claim=claim.id,
        at=note.at,
    )


def note_of(event: Event) -> EventNote:
    """Return the note of an event; its claim has the right name, id and kind, but nothing else."""
    weight, capacity = _WEIGHT_AND_CAPACITY[event.kind]
    claim = replace(NO_CLAIM, id=event.claim, name=event.name, weight=weight, capacity=capacity)
    facts = tuple(getattr(event, one) for one in own_fields(event))
    return EventNote(type(event), claim, event.token, event.at, None, facts)


def store_of(backend: object) -> str:
    """Return a backend's kind of store: its `store` attribute, or else the name of its package."""
    details = getattr(backend, "store", None)
    if isinstance(details, str) and details:
        return details
    parts = type(backend).__module__.split(".")
    return parts[2] if parts[:2] == ["lockfast", "backends"] else parts[0]


def level_of(event: Event) -> int:
    """Return the log level of an event; a loss because the client was closed is no warning."""
    if isinstance(event, Lost) and event.reason == "closed":
        return logging.INFO
    return LOG_LEVELS[type(event)]


def log_line(event: Event) -> str:
    """Return the log line for an event."""
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
    details = "".join(f" {name}={_short(getattr(event, name))}" for name in own_fields(event))
    about = f" {event.name!r} token={event.token}" if event.name else ""
    return f"{type(event).__name__}{about}{details}"


def own_fields(event: Event) -> list[str]:
    """Return the fields that only this kind of event has."""
    return [one for one in event.__dataclass_fields__ if one not in Event.__dataclass_fields__]


def _short(value: object) -> object:
    return round(value, 3) if isinstance(value, float) else value


def store_failure_of(error: BaseException) -> StoreTrouble | None:
    """Return how a request failed, from its error; None if the error is not the store's."""
    if isinstance(error, OutcomeUnknown):
        return "unknown"
    if isinstance(error, BackendUnavailable):
        return "unavailable"
    if isinstance(error, BackendMisbehaved):
        return "misbehaved"
    return "refused" if isinstance(error, BackendError) else None


def withdrawal_reason_of(error: BaseException) -> WithdrawalReason:
    """Return why an acquire that ended with this error was withdrawn."""
    if isinstance(error, BackendError | OutcomeUnknown):
        return "store_error"
    if isinstance(error, LocksClosed):
        return "closed"
    if isinstance(error, WouldDeadlock):
        return "deadlock"
    if isinstance(error, MoveToShard):
        return "replaced"
    # Anything that is not an Exception is a cancellation or an interrupt.
    is_cancelled = isinstance(error, NotAcquired) or not isinstance(error, Exception)
    return "cancelled" if is_cancelled else "refused"


# The log sentence about a long wait for a name.

LONG_WAIT_SECONDS = 10.0
"""A wait is mentioned in the log once it has lasted this long, in seconds."""

MENTION_GROWTH = 6.0
"""Factor from one mention of a wait to the next: after 10 s, one minute, six minutes, and so on."""

MENTION_AT_LEAST_EVERY = 3600.0


def still_waiting(name: str, held: Held, *, waited: float) -> str:
    """Return the log sentence for an acquire that has waited long and still waits."""
    return f"still waiting for {name!r} after {waited:.0f} s: {held_text(held)}"


def next_mention(waited: float) -> float:
    """Return how long a wait must have lasted before the log mentions it next."""
    if waited < LONG_WAIT_SECONDS:
        return LONG_WAIT_SECONDS
    return min(waited * MENTION_GROWTH, waited + MENTION_AT_LEAST_EVERY)
