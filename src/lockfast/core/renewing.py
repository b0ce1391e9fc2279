"""When to renew, and what an answer to a renewal means."""

from __future__ import annotations

from lockfast.core.trust import trusted_until
from lockfast.model import BY_TTL, Life, Renewal

TOGETHER = 0.02
"""What is due within this part of a ttl is renewed along: ten thousand leases that began one
after the other are then renewed in a few batches, and not one by one."""

RETRIES_PER_TTL = 12
"""An unanswered renewal is repeated this often within a ttl, at most once in RETRY_AT_MOST."""

RETRY_AT_MOST = 1.0


def due_after(*, sent_at: float, ttl: float, life: Life = BY_TTL) -> float:
    """Return when the lease should be renewed, after the moment from which its ttl counts."""
    return sent_at + ttl * life.renewed_after


def due_after_silence(*, now: float, ttl: float) -> float:
    """Return when to ask again after a renewal that was not answered."""
    return now + min(ttl / RETRIES_PER_TTL, RETRY_AT_MOST)


def after_renewal(
    until: float, outcome: Renewal, *, sent_at: float, now: float, ttl: float
) -> float | None:
    """Return how long the holder may go on, or None when it must stop.

    An unanswered renewal changes nothing: the store may have extended the lease or not,
    so we keep the earlier promise and let it run out by itself. An answer that comes
    after the old promise ended does not revive the lease: the holder was told.
    """
    if outcome in (Renewal.LOST, Renewal.BROKEN) or now >= until:
        return None
    if outcome is Renewal.UNKNOWN:
        return until
    return max(until, trusted_until(sent_at=sent_at, ttl=ttl))
