"""Until when a lease is trusted, and when it is renewed or at risk; also the states of a hold.

Every fraction of a ttl is defined here.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from lockfast.core.door import TOKEN_LIMIT
from lockfast.errors import BackendMisbehaved
from lockfast.model import FOREVER, Renewal

if TYPE_CHECKING:
    from lockfast.model import Capabilities, Claim, Grant


@dataclass(frozen=True, slots=True)
class Life:
    """How grants end in a store, and what that requires of a client.

    Fractions of the ttl count from its start. The ttl starts when the client sends the request that
    sets the store's deadline or proves the session alive.
    """

    renewed_after: float
    """The fraction of the ttl after which the next renewal is due."""
    at_risk_for: float
    """The final fraction of the ttl, which a healthy lease never reaches."""
    ends_by_itself: bool
    """Whether the store drops a hold that is not renewed, even if its client is alive."""
    is_proven: bool
    """Whether grants and renewals say when their ttl starts; otherwise it starts with the request.
    """
    has_own_ttl: bool
    """Whether each lock may have a different ttl from its client's."""
    loss_reason: Literal["taken", "session_ended"]
    """The loss reason for a lease that the store no longer has."""
    blocks_after_crash: str
    """Until when a crashed holder blocks others, for display."""


BY_TTL = Life(
    renewed_after=1 / 3,  # two renewals may go unanswered before trust ends
    at_risk_for=1 / 3,
    ends_by_itself=True,
    is_proven=False,
    has_own_ttl=True,
    loss_reason="taken",
    blocks_after_crash="its ttl has run out",
)
BY_SESSION = Life(
    # The request that proves a session may be the last keep-alive but one, so another third of the
    # ttl may have passed.
    renewed_after=2 / 3,
    at_risk_for=1 / 6,
    ends_by_itself=False,
    is_proven=True,
    has_own_ttl=False,
    loss_reason="session_ended",
    blocks_after_crash="its session has ended: a full ttl, after an election if there is one",
)
BY_PROMPT_SESSION = replace(
    BY_SESSION,
    # The last keep-alive proves the session, so no more of the ttl has passed than for a lease that
    # was renewed at that time.
    renewed_after=BY_TTL.renewed_after,
    at_risk_for=BY_TTL.at_risk_for,
    blocks_after_crash=(
        "its session has ended, an election and a full ttl, and a full ttl after that"
    ),
)


def life_of(capabilities: Capabilities) -> Life:
    """Return what a backend's `ends_by` means for a client."""
    if capabilities.ends_by == "ttl":
        return BY_TTL
    return BY_PROMPT_SESSION if capabilities.proves_at_once else BY_SESSION


# The states of a hold, and which of them may follow each other.
#
# A holder may act only in the first state. The store's reply to a release decides the outcome of
# the release; nothing else ends a hold while a release is under way.


class HoldState(enum.IntEnum):
    """The state of a hold."""

    HELD = 0
    # sent while the hold was trusted, so the release is clean whatever a retry returns
    RELEASING = 1
    ENTRUSTED = 2  # also sent while trusted but not answered; a background task finishes it
    LOST = 3  # everyone concerned is notified; a release reports the loss once more
    OVER = 4  # released, handed over or withdrawn


# These are module constants because every acquire uses them. In Python 3.11, looking up an enum
# member takes longer than everything that is then done with it.
HELD, RELEASING, ENTRUSTED, LOST, OVER = HoldState

NEXT_STATES: dict[HoldState, tuple[HoldState, ...]] = {
    HELD: (RELEASING, LOST, OVER),
    # RELEASING may repeat, because a release that was interrupted before it was answered or
    # entrusted starts over.
    RELEASING: (OVER, ENTRUSTED, LOST, RELEASING),
    ENTRUSTED: (OVER,),
    # LOST may repeat, because a loss that was interrupted before everyone was notified is reported
    # again.
    LOST: (OVER, LOST),
    OVER: (),
}
"""The states that may follow each state."""

SENT = (RELEASING, ENTRUSTED)
"""The states after a release that counts as clean was sent."""

GIVEN_UP = (*SENT, OVER)
"""The states in which the holder has ended the hold or is about to, so that it can no longer be
lost."""

# Whether and how long a holder may trust its lease.
#
# Trust counts from *before* the request that set the store's deadline was sent. The store's clock
# started later than that, so the holder can only stop too early. Counting from the reply would let
# a slow reply make us trust a lease that had already been given away.

CLOCK_DRIFT_FRACTION = 0.01
"""How far the clocks of the client and the store may drift apart, as a fraction. Crystals stay
within a hundredth of this."""

TRUST_MARGIN_SECONDS = 0.002
"""Allowance for rounding in the stores' clocks (milliseconds in Redis) and for the time until the
last check, in seconds."""


def check_grant(grant: Grant, claim: Claim, *, life: Life) -> None:
    """Raise if no store that keeps the contract could have made this grant for the claim."""
    if grant.claim.id != claim.id:
        wrong = f"granted {claim.name!r} to another claim than ours"
    elif grant.token is not None and not 0 < grant.token < TOKEN_LIMIT:
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
    return sent_at + ttl * (1 - CLOCK_DRIFT_FRACTION) - TRUST_MARGIN_SECONDS


def at_risk_from(*, until: float, ttl: float, life: Life = BY_TTL) -> float:
    """Return when the final part of the ttl begins.

    A renewed lease never reaches that part while all is well. If the lease is not renewed, the
    holder should be warned then.
    """
    return until - ttl * life.at_risk_for


def is_at_risk(
    *, now: float, until: float, ttl: float, unanswered: bool, life: Life = BY_TTL
) -> bool:
    """Whether a renewal went unanswered, or the lease has not been renewed for too long."""
    return now < until and (unanswered or now >= at_risk_from(until=until, ttl=ttl, life=life))


OUTAGE_TTL_FRACTION = 2 / 3
"""The fraction of a ttl for which a store may be unavailable before a renewed lease is lost. It is
the fraction that is left when a renewal is due."""

COMMAND_START_TTL_FRACTION = 1 / 2
"""A command starts only under a lease with at least this fraction of its ttl left."""

SESSION_PROOF_TTL_FRACTION = 1 / 2
"""A session counts as alive for this fraction of its ttl after its last confirmation."""

STOP_MARGIN_TTL_FRACTION = 1 / 10
"""A command must be dead when this fraction of the ttl of its lease is left, or
STOP_MARGIN_MAX_SECONDS if that is less."""

STOP_MARGIN_MAX_SECONDS = 1.0


def at_risk_seconds(ttl: float) -> float:
    """Return how long the final part of a ttl is, in which a lease is at risk."""
    return ttl * BY_TTL.at_risk_for


def left_at_renewal_seconds(ttl: float) -> float:
    """Return how much of a ttl is left when a renewal is due."""
    return ttl * (1 - BY_TTL.renewed_after)


def stop_margin_seconds(ttl: float) -> float:
    """Return how long before the lease's end a command must be dead."""
    return min(STOP_MARGIN_MAX_SECONDS, ttl * STOP_MARGIN_TTL_FRACTION)


# When to renew, and what the reply to a renewal means.

RENEW_TOGETHER_FRACTION = 0.02
"""Leases due within this fraction of a ttl are renewed together. Ten thousand leases that began one
after the other are then renewed in a few batches, not one by one."""

RENEWAL_RETRIES_PER_TTL = 12
"""How often an unanswered renewal is retried within a ttl; a long ttl has more retries, one every
RENEWAL_RETRY_MAX_SECONDS."""

RENEWAL_RETRY_MAX_SECONDS = 1.0


def due_after(*, sent_at: float, ttl: float, life: Life = BY_TTL) -> float:
    """Return when to renew a lease whose ttl counts from `sent_at`."""
    return sent_at + ttl * life.renewed_after


def retry_after_silence(*, now: float, ttl: float) -> float:
    """Return when to retry a renewal that was not answered."""
    return now + min(ttl / RENEWAL_RETRIES_PER_TTL, RENEWAL_RETRY_MAX_SECONDS)


def after_renewal(
    until: float, outcome: Renewal, *, sent_at: float, now: float, ttl: float
) -> float | None:
    """Return the time until which the holder may continue, or None if it must stop.

    After an unanswered renewal, the store may or may not have extended the lease, so we keep the
    earlier end of trust and let it run out. A reply that comes after that end does not revive the
    lease, because the holder has been notified of the loss.
    """
    if outcome in (Renewal.LOST, Renewal.BROKEN) or now >= until:
        return None
    if outcome is Renewal.UNKNOWN:
        return until
    return max(until, trusted_until(sent_at=sent_at, ttl=ttl))


# Why a lease was not renewed in time: either the store was silent, or our background did not run.

LATE_SECONDS = 0.25
"""If the background wakes this many seconds later than planned, it was kept from running. A shorter
delay is normal on a busy machine."""


def cause_of_expiry(
    *, now: float, due: float, asked_at: float | None, wakes_at: float, standstill_text: str
) -> str:
    """Return the cause of an expiry as a clause that says how long; "" if it is not known.

    `due` is when the next renewal was due, `asked_at` when the first unanswered renewal was sent,
    if any, and `wakes_at` when the background was to run next. `standstill_text` is this flavour's
    explanation for a background that did not run. If the store was silent while the background did
    not run, the reply may have arrived with nobody to read it. The standstill is then the cause if
    it lasted at least half as long as the silence.
    """
    # If the background has not started, `wakes_at` says nothing. The standstill then began when the
    # renewal was due, since none has run.
    began = due if wakes_at == FOREVER and asked_at is None else wakes_at
    stalled_seconds = max(0.0, now - began)
    silent = 0.0 if asked_at is None else now - asked_at
    if stalled_seconds > LATE_SECONDS and stalled_seconds >= silent / 2:
        return standstill_text.format(seconds=stalled_seconds)
    return "" if asked_at is None else f"the store did not answer for {silent:.1f} s"
