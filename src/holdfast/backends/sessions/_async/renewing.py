"""How a session renews its claims: one heartbeat for all, and a look at those not seen before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.backends.sessions.refusals import SessionEnded
from holdfast.errors import LockError
from holdfast.model import Proven, Renewal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.backends.sessions._async.session import AsyncSession
    from holdfast.model import Grant
    from holdfast.runtime.clock import Clock


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
    carried = [session.carried.get(grant.claim.id) for grant in grants]
    found = {
        grant.claim.id: Renewal.LOST
        for grant, one in zip(grants, carried, strict=True)
        if one is None or one.key is None
    }
    unseen = [
        (one, one.key)
        for one in carried
        if one is not None and one.key is not None and not one.is_seen
    ]
    if not unseen:
        return found
    for one, _ in unseen:
        one.is_seen = True  # before it is asked for: the watch may speak at once
    watches = session.watches
    try:
        seen = await session.wire.read(
            [(key, watches.on(key, one.claim.id)) for one, key in unseen], deadline=deadline
        )
    except LockError:
        for one, _ in unseen:
            one.is_seen = False
        return found
    for (one, key), there in zip(unseen, seen, strict=True):
        if there is None:
            watches.drop(key)
            found[one.claim.id] = Renewal.BROKEN
    return found
