"""What a client tells of its leases, as it happens: frozen values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a lease; `owner` is this process's owner, for people."""

    name: str
    token: int | None
    owner: str


@dataclass(frozen=True, slots=True)
class Acquired(Event):
    """A lease began after `waited` seconds."""

    waited: float


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
    """A lease may no longer be acted upon."""

    reason: str


@dataclass(frozen=True, slots=True)
class Released(Event):
    """A lease ended by its holder's will after `held` seconds."""

    held: float
