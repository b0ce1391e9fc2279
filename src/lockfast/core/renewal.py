"""Until when a lease is trusted, when it is renewed, and when it is at risk; the states of a hold.

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
    """How grants end in a store, and how clients must treat them.

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
    """Whether replies to acquires and renewals say when the ttl starts. If not, the ttl starts when
    the request is sent.
    """
    has_own_ttl: bool
    """Whether a lock may have a ttl other than that of its client."""
    loss_reason: Literal["taken", "session_ended"]
    """The loss reason for a lease that the store no longer has."""
    blocks_after_crash: str
    """Until when a crashed holder blocks other claims, for display."""


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
    # A session may only be proven by its last keep-alive but one, so another third of the ttl may
    # have passed.
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
    # The last keep-alive proves the session, so the ttl started no earlier than for a lease that
    # was renewed when that keep-alive was sent.
    renewed_after=BY_TTL.renewed_after,
    at_risk_for=BY_TTL.at_risk_for,
    blocks_after_crash=(
        "its session has ended, an election and a full ttl, and a full ttl after that"
    ),
)


def life_of(capabilities: Capabilities) -> Life:
    """Return the rules for a client that follow from a backend's `ends_by`."""
    if capabilities.ends_by == "ttl":
        return BY_TTL
    return BY_PROMPT_SESSION if capabilities.proves_at_once else BY_SESSION


# The states of a hold, and which of them may follow each other.
#
# A holder may act only in the first state. While a release is under way, only the store's reply to
# it ends the hold.


class HoldState(enum.IntEnum):
    """The state of a hold."""

    HELD = 0
    # sent while the hold was trusted, so the release counts as clean whatever a retry returns
    RELEASING = 1
    ENTRUSTED = 2  # sent while trusted, but not answered; a background task finishes the release
    LOST = 3  # everyone concerned is notified; a later release reports the loss again
    OVER = 4  # released, handed over or withdrawn


# These are module constants because every acquire uses them. In Python 3.11, looking up an enum
# member takes longer than the operation that uses the member.
HELD, RELEASING, ENTRUSTED, LOST, OVER = HoldState

NEXT_STATES: dict[HoldState, tuple[HoldState, ...]] = {
    HELD: (RELEASING, LOST, OVER),
    # RELEASING may follow itself: a release starts over if it was interrupted before it was
    # answered or entrusted to the background.
    RELEASING: (OVER, ENTRUSTED, LOST, RELEASING),
    ENTRUSTED: (OVER,),
    # LOST may follow itself: a loss is reported again if the report was interrupted before everyone
    # was notified.
    LOST: (OVER, LOST),
    OVER: (),
}
"""The states that may follow each state."""

SENT = (RELEASING, ENTRUSTED)
"""The states after a release was sent in time, so that it counts as clean."""

GIVEN_UP = (*SENT, OVER)
"""The states in which the holder has ended the hold or is about to, so that it can no longer be
lost."""

# Whether and how long a holder may trust its lease.
#
# Trust counts from *before* the request that set the store's deadline was sent. The store's clock
# started later than that, so the holder can only stop too early. Counting from the reply would let
# a slow reply make us trust a lease that had already been given away.

CLOCK_DRIFT_FRACTION = 0.01
"""Assumed maximum drift between the clocks of client and store, as a fraction. Crystals stay within
a hundredth of this.
"""

TRUST_MARGIN_SECONDS = 0.002
"""Allowance for rounding in the stores' clocks (milliseconds in Redis) and for the time until the
last check, in seconds."""


def check_grant(grant: Grant, claim: Claim, *, life: Life) -> None:
    """Raise if a store that keeps the contract could not have made this grant for the claim."""
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
    """Return when the final part of the ttl begins, in which a lease is at risk.

    While all is well, a renewed lease never reaches that part. If a lease is not renewed, this is
    the time to warn the holder.
    """
    return until - ttl * life.at_risk_for


def is_at_risk(
    *, now: float, until: float, ttl: float, unanswered: bool, life: Life = BY_TTL
) -> bool:
    """Return whether a renewal went unanswered, or the last renewal was too long ago."""
    return now < until and (unanswered or now >= at_risk_from(until=until, ttl=ttl, life=life))


OUTAGE_TTL_FRACTION = 2 / 3
"""The fraction of a ttl for which a store may be unavailable before a renewed lease is lost. This
is the fraction that is left when a renewal is due.
"""

COMMAND_START_TTL_FRACTION = 1 / 2
"""A command starts only under a lease with at least this fraction of its ttl left."""

SESSION_PROOF_TTL_FRACTION = 1 / 2
"""A session counts as alive for this fraction of its ttl after its last confirmation."""

STOP_MARGIN_TTL_FRACTION = 1 / 10
"""A command must have ended when this fraction of its lease's ttl is left, or
STOP_MARGIN_MAX_SECONDS if that is less.
"""

STOP_MARGIN_MAX_SECONDS = 1.0


def at_risk_seconds(ttl: float) -> float:
    """Return the length of the final part of a ttl, in which a lease is at risk."""
    return ttl * BY_TTL.at_risk_for


def left_at_renewal_seconds(ttl: float) -> float:
    """Return how much of a ttl is left when a renewal is due."""
    return ttl * (1 - BY_TTL.renewed_after)


def stop_margin_seconds(ttl: float) -> float:
    """Return how long before the end of the lease a command must have ended."""
    return min(STOP_MARGIN_MAX_SECONDS, ttl * STOP_MARGIN_TTL_FRACTION)


# When to renew a lease, and what the reply to a renewal means.

RENEW_TOGETHER_FRACTION = 0.02
"""Leases due within this fraction of a ttl are renewed together. Ten thousand leases that began one
after the other are then renewed in a few batches, not one by one."""

RENEWAL_RETRIES_PER_TTL = 12
"""Minimum number of retries of an unanswered renewal within a ttl. The retries are at most
RENEWAL_RETRY_MAX_SECONDS apart, so a long ttl has more of them.
"""

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

    If a renewal was not answered, the store may or may not have extended the lease, so the time
    stays as it was. A reply that arrives after that time does not revive the lease, because the
    holder has already been notified of the loss.
    """
    if outcome in (Renewal.LOST, Renewal.BROKEN) or now >= until:
        return None
    if outcome is Renewal.UNKNOWN:
        return until
    return max(until, trusted_until(sent_at=sent_at, ttl=ttl))


# Why a lease was not renewed in time: either the store did not answer, or our background did not
# run.

LATE_SECONDS = 0.25
"""Minimum delay, in seconds, after which a late background counts as having been kept from running.
Shorter delays are normal on a busy machine.
"""


def cause_of_expiry(
    *, now: float, due: float, asked_at: float | None, wakes_at: float, standstill_text: str
) -> str:
    """Return the cause of an expiry as a clause, with a duration; "" if the cause is not known.

    `due` is when the next renewal was due, `asked_at` when the first unanswered renewal was sent,
    if any, and `wakes_at` when the background was to run next. `standstill_text` is this flavour's
    explanation for a background that did not run. If no reply was read while the background did not
    run, a reply may have arrived all the same. So the standstill is the cause if it lasted at least
    half as long as the silence of the store.
    """
    # If the background was never started, `wakes_at` says nothing. The standstill then began when
    # the renewal was due.
    began = due if wakes_at == FOREVER and asked_at is None else wakes_at
    stalled_seconds = max(0.0, now - began)
    silent = 0.0 if asked_at is None else now - asked_at
    if stalled_seconds > LATE_SECONDS and stalled_seconds >= silent / 2:
        return standstill_text.format(seconds=stalled_seconds)
    return "" if asked_at is None else f"the store did not answer for {silent:.1f} s"
