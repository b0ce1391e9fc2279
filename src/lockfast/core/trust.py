"""Whether a holder may believe in its lease, and how long.

Counted from *before* the request was sent that set the store's deadline: the store's
clock started later than that, so the holder can only stop too early. Counting from the
answer would let a slow reply make us believe in a lease that was already given away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockfast.core.tokens import LIMIT
from lockfast.errors import BackendMisbehaved
from lockfast.model import BY_TTL, Life

if TYPE_CHECKING:
    from lockfast.model import Claim, Grant

DRIFT_RATIO = 0.01
"""The two clocks may run apart by this much; crystals stay within a hundredth of it."""

MARGIN = 0.002
"""Rounding of the stores' clocks (milliseconds in Redis), and the way to the last check."""


def refuse_unsound(grant: Grant, claim: Claim, *, life: Life) -> None:
    """Raise if no store that keeps the contract would have granted the claim so."""
    if grant.claim.id != claim.id:
        wrong = f"granted {claim.name!r} to another claim than ours"
    elif grant.token is not None and not 0 < grant.token < LIMIT:
        wrong = (
            f"gave the token {grant.token} for {claim.name!r}; tokens are above 0 and below 2**53"
        )
    elif life.is_proven and grant.window is None and grant.counted_from is None:
        wrong = (
            f"granted {claim.name!r} by its session, and did not say what proves that "
            "(counted_from)"
        )
    else:
        return
    raise BackendMisbehaved(f"the backend {wrong}", name=claim.name)


def trusted_until(*, sent_at: float, ttl: float) -> float:
    """Return the local time after which the holder must stop."""
    return sent_at + ttl * (1 - DRIFT_RATIO) - MARGIN


def at_risk_from(*, until: float, ttl: float, life: Life = BY_TTL) -> float:
    """Return when the last part of the ttl begins.

    A renewed lease never reaches it while all is well; one without renewal should know.
    """
    return until - ttl * life.at_risk_for


def is_at_risk(
    *, now: float, until: float, ttl: float, unanswered: bool, life: Life = BY_TTL
) -> bool:
    """Whether a renewal went unanswered, or none has come for too long."""
    return now < until and (unanswered or now >= at_risk_from(until=until, ttl=ttl, life=life))
