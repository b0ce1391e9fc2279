"""When a command has to be told to stop, and when it has to be dead. Pure."""

from __future__ import annotations

from dataclasses import dataclass

LONGEST_MARGIN = 1.0

GONE = frozenset({"broken", "taken", "session_ended"})
"""Reasons after which somebody else may hold the lock already."""


@dataclass(frozen=True, slots=True)
class Ending:
    """Two moments on the local clock: TERM is sent at the first, KILL at the second."""

    term_at: float
    kill_at: float


def margin(ttl: float) -> float:
    """Return how long before the lease's end the command must be dead."""
    return min(LONGEST_MARGIN, ttl / 10)


def while_trusted(*, now: float, remaining: float, ttl: float) -> Ending:
    """Return the ending that comes if the lease is not renewed any more.

    A lease that is renewed never reaches the last third of its ttl, so a single renewal
    that went unanswered disturbs no command.
    """
    until = now + remaining
    return Ending(term_at=until - ttl / 3, kill_at=until - margin(ttl))


def after_loss(ending: Ending, *, now: float, reason: str, ttl: float) -> Ending:
    """Return the ending of a command whose lease was lost now.

    After max_hold the store still keeps the lock closed until the last promise ends; the
    command has that time. Where somebody else may hold it already, it has hardly any.
    """
    kill_at = min(ending.kill_at, now + margin(ttl)) if reason in GONE else ending.kill_at
    return Ending(term_at=min(ending.term_at, now), kill_at=kill_at)
