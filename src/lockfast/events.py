"""The events that a client reports about its leases as they happen; all are frozen values.

Each acquire ends in one of Acquired, TimedOut, Skipped and Withdrawn, preceded by Waiting if it had
to wait in line. Each Acquired is followed by one of Released, Detached and Lost, with the same
claim. The other events report the state of a lease in between, and the state of the store.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

Kind: TypeAlias = Literal["lock", "read", "write", "semaphore"]
"""The kind of lock requested. A semaphore with one permit is a lock."""

LossReason: TypeAlias = Literal[
    "expired", "taken", "session_ended", "broken", "max_hold", "closed", "forked"
]
"""Why a lease was lost; the same values as `LeaseLost.reason`."""

WithdrawalReason: TypeAlias = Literal[
    "cancelled", "closed", "deadlock", "refused", "replaced", "store_error"
]
"""Why an acquire ended with neither a lease nor a timeout. "replaced" means that the same acquire
continues with a new claim, because the store had forgotten this one, because another shard is free,
or because the line of another shard moves while this one does not.
"""

StoreRequest: TypeAlias = Literal["acquire", "renew", "release", "withdraw"]
"""The request that was sent to the store."""

StoreTrouble: TypeAlias = Literal["unavailable", "unknown", "refused", "misbehaved"]
"""How a request failed. "unavailable" means that the store did nothing, "unknown" that the request
was sent and not answered, "refused" that the store refused the request, and "misbehaved" that the
reply made no sense.
"""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a lease; `owner` is this process's owner, for display.

    `token` is None until a token is granted, and on a store that has no tokens. `store` is the kind
    of store ("redis"), `claim` is the id shared by all events of one acquire, and `at` is the time
    of the event, in seconds since 1970 by this machine's clock.
    """

    name: str
    token: int | None
    owner: str
    kind: Kind = field(default="lock", kw_only=True)
    store: str = field(default="", kw_only=True)
    claim: str = field(default="", kw_only=True)
    at: float = field(default=0.0, kw_only=True)


Hook: TypeAlias = Callable[[Event], Any]
"""A function that is called with each event; in asyncio it may be an `async def`."""


@dataclass(frozen=True, slots=True)
class Waiting(Event):
    """An acquire now waits; `place` is 1 at the front of the line, and None if there is no line."""

    place: int | None


@dataclass(frozen=True, slots=True)
class Acquired(Event):
    """A lease began after `waited` seconds, with this ttl; `renews` says if it is renewed."""

    waited: float
    ttl: float = 0.0
    renews: bool = True


@dataclass(frozen=True, slots=True)
class TimedOut(Event):
    """An acquire gave up after `waited` seconds, at this `place` in line."""

    waited: float
    place: int | None = None


@dataclass(frozen=True, slots=True)
class Skipped(Event):
    """The lock was held, and the caller did not want to wait."""


@dataclass(frozen=True, slots=True)
class Withdrawn(Event):
    """An acquire ended after `waited` seconds with neither a lease nor a timeout."""

    waited: float
    reason: WithdrawalReason


@dataclass(frozen=True, slots=True)
class Renewed(Event):
    """A lease was renewed while it still had `margin` seconds to run."""

    margin: float


@dataclass(frozen=True, slots=True)
class AtRisk(Event):
    """A renewal is overdue or unanswered; the lease is trusted for `remaining` seconds more."""

    remaining: float


@dataclass(frozen=True, slots=True)
class SafeAgain(Event):
    """A lease that was at risk has been renewed, and is trusted for `remaining` seconds."""

    remaining: float


@dataclass(frozen=True, slots=True)
class Lost(Event):
    """A lease may no longer be used; it was held for `held` seconds.

    `cause` is a text for display that explains why the lease expired, if the reason is known: for
    how long the process or the event loop did not run, or the store did not answer.
    """

    reason: LossReason
    held: float = 0.0
    cause: str = ""


@dataclass(frozen=True, slots=True)
class Released(Event):
    """A lease was ended by its holder after `held` seconds.

    If the store did not answer, the release continues in the background.
    """

    held: float


@dataclass(frozen=True, slots=True)
class Detached(Event):
    """A lease was detached after `held` seconds, to be adopted elsewhere with `locks.adopt`."""

    held: float


@dataclass(frozen=True, slots=True)
class StoreError(Event):
    """A request to the store failed; `message` is for display.

    `name` is empty if the request concerned several leases.
    """

    request: StoreRequest
    reason: StoreTrouble
    message: str = ""


@dataclass(frozen=True, slots=True)
class Reconnected(Event):
    """The store answers again, `away` seconds after requests began to fail."""

    away: float
