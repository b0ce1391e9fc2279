"""How a session renews its claims: one heartbeat for all, and a look at those not seen before.

Whatever proves a hold compares the token that was granted with what stands in the store: that
something stands at the key is not enough. What was deleted and made again there, by a late copy of
an acquire or by hand, belongs to nobody, and others may have been let in meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockfast.backends.sessions.refusals import SessionEnded
from lockfast.errors import LockError
from lockfast.model import Proven, Renewal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.backends.sessions._async.session import AsyncSession
    from lockfast.backends.sessions.claims import CarriedClaim
    from lockfast.model import Grant
    from lockfast.runtime.clock import Clock


async def renewed(
    session: AsyncSession, grants: Sequence[Grant], *, clock: Clock, deadline: float
) -> dict[str, Renewal | Proven]:
    """Return what became of each, by its claim's id."""
    outcome: Renewal | Proven = Renewal.LOST
    try:
        if session.is_usable(clock.now()):
            # Without a connection the holder should know now, not when a request is given
            # up; the session's own heartbeat goes on trying.
            is_proven = session.wire.is_connected and await session.prove(deadline=deadline)
            outcome = Proven(session.counted_from) if is_proven else Renewal.UNKNOWN
    except SessionEnded:
        outcome = Renewal.LOST
    except LockError:
        outcome = Renewal.UNKNOWN
    outcomes = dict.fromkeys((grant.claim.id for grant in grants), outcome)
    if isinstance(outcome, Proven):
        outcomes.update(await _look_at(session, grants, deadline))
    return outcomes


async def _look_at(
    session: AsyncSession, grants: Sequence[Grant], deadline: float
) -> dict[str, Renewal]:
    """Tell of those that are gone from the store: broken, since the session lives."""
    found: dict[str, Renewal] = {}
    unseen: list[tuple[CarriedClaim, str]] = []
    for grant in grants:
        one = session.carried.get(grant.claim.id)
        if one is None or one.key is None:
            found[grant.claim.id] = Renewal.LOST
        elif one.token != grant.token:
            found[grant.claim.id] = Renewal.BROKEN
        elif not one.is_seen:
            unseen.append((one, one.key))
    if unseen:
        found.update(await _look_in_the_store(session, unseen, deadline))
    return found


async def _look_in_the_store(
    session: AsyncSession, unseen: Sequence[tuple[CarriedClaim, str]], deadline: float
) -> dict[str, Renewal]:
    for one, _ in unseen:
        one.is_seen = True  # before it is asked for: the watch may speak at once
    watches, found = session.watches, dict[str, Renewal]()
    try:
        seen = await session.wire.read(
            [(key, watches.on(key, one.claim.id)) for one, key in unseen], deadline=deadline
        )
    except LockError:
        for one, _ in unseen:
            one.is_seen = False
        return found
    for (one, key), there in zip(unseen, seen, strict=True):
        if there is None or there.token != one.token:
            watches.drop(key)
            found[one.claim.id] = Renewal.BROKEN
    return found
