"""What a client tells of its leases, as it happens: frozen values.

Each acquire ends in one of Acquired, TimedOut, Skipped and Withdrawn; Waiting comes before, if it
had to stand in line. Each Acquired is followed by one of Released, Detached and Lost, with the
same claim. What else there is tells how a lease fares in between, and how the store does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

Kind: TypeAlias = Literal["lock", "read", "write", "semaphore"]
"""What was asked for. A semaphore of one permit is a lock."""

LossReason: TypeAlias = Literal[
    "expired", "taken", "session_ended", "broken", "max_hold", "closed", "forked"
]
"""Why a lease was lost: as `LeaseLost.reason`."""

WithdrawalReason: TypeAlias = Literal[
    "cancelled", "closed", "deadlock", "refused", "replaced", "store_error"
]
"""Why an acquire ended with neither a lease nor a timeout. Replaced: the same acquire goes on with
a new claim, because the store had forgotten this one, or another shard is free or moves on."""

StoreRequest: TypeAlias = Literal["acquire", "renew", "release", "withdraw"]
"""What the store was asked to do."""

StoreTrouble: TypeAlias = Literal["unavailable", "unknown", "refused", "misbehaved"]
"""What became of a request: nothing was done; it was sent and not answered; the store said no;
the answer made no sense."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a lease; `owner` is this process's owner, for people.

    `token` is None before there is one, and where the store has none. `store` is the kind of
    store ("redis"), `claim` the id by which the events of one acquire belong together, and `at`
    when it happened, in seconds since 1970 by this machine's clock.
    """

    name: str
    token: int | None
    owner: str
    kind: Kind = field(default="lock", kw_only=True)
    store: str = field(default="", kw_only=True)
    claim: str = field(default="", kw_only=True)
    at: float = field(default=0.0, kw_only=True)


Hook: TypeAlias = Callable[[Event], Any]
"""What is called with each event; in asyncio it may be an `async def`."""


@dataclass(frozen=True, slots=True)
class Waiting(Event):
    """An acquire stands in line now; its `place` is 1 for the next, None where there is no line."""

    place: int | None


@dataclass(frozen=True, slots=True)
class Acquired(Event):
    """A lease began after `waited` seconds, with this ttl; `renews` says whether it is renewed."""

    waited: float
    ttl: float = 0.0
    renews: bool = True


@dataclass(frozen=True, slots=True)
class TimedOut(Event):
    """An acquire gave up after `waited` seconds, when it had this `place` in line."""

    waited: float
    place: int | None = None


@dataclass(frozen=True, slots=True)
class Skipped(Event):
    """Somebody else held it, and the caller did not mean to wait."""


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
    """A renewal was not answered; the lease is trusted for `remaining` seconds more."""

    remaining: float


@dataclass(frozen=True, slots=True)
class SafeAgain(Event):
    """A lease that was at risk has been renewed, and is trusted for `remaining` seconds."""

    remaining: float


@dataclass(frozen=True, slots=True)
class Lost(Event):
    """A lease may no longer be acted upon; it was held for `held` seconds.

    `cause` says for people why it expired, as far as is known: the process or the event loop did
    not run, or the store did not answer, and for how long.
    """

    reason: LossReason
    held: float = 0.0
    cause: str = ""


@dataclass(frozen=True, slots=True)
class Released(Event):
    """A lease ended by its holder's will after `held` seconds.

    Where the store did not answer, its release goes on in the background.
    """

    held: float


@dataclass(frozen=True, slots=True)
class Detached(Event):
    """A lease was handed over after `held` seconds, for `locks.adopt` to take it up elsewhere."""

    held: float


@dataclass(frozen=True, slots=True)
class StoreError(Event):
    """A request to the store failed; `message` is for people.

    `name` is empty where it was about several leases.
    """

    request: StoreRequest
    reason: StoreTrouble
    message: str = ""


@dataclass(frozen=True, slots=True)
class Reconnected(Event):
    """The store answers again, `away` seconds after the first request that failed."""

    away: float
