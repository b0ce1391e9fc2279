# Generated from src/holdfast/backends/zookeeper/_async/renewing.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""How a session renews its claims: one heartbeat for all, and a look at nodes not seen before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.backends.zookeeper import requests
from holdfast.backends.zookeeper.refusals import SessionEnded, is_missing
from holdfast.errors import LockError
from holdfast.model import Renewal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.backends.zookeeper._sync.session import Session
    from holdfast.model import Grant
    from holdfast.runtime.clock import Clock

TOGETHER = 500
"""As many nodes are looked at in one flight."""


def renewed(
    session: Session, grants: Sequence[Grant], *, clock: Clock, deadline: float
) -> dict[str, Renewal]:
    """Return what became of each, by its claim's id."""
    outcome = Renewal.LOST
    try:
        if session.is_usable(clock.now()):
            # Without a connection the holder should know now, not when a request is given
            # up; the session's own heartbeat goes on trying.
            is_proven = session.wire.is_connected and session.prove(deadline=deadline)
            outcome = Renewal.RENEWED if is_proven else Renewal.UNKNOWN
    except SessionEnded:
        outcome = Renewal.LOST
    except LockError:
        outcome = Renewal.UNKNOWN
    outcomes = {grant.claim.id: outcome for grant in grants}
    if outcome is not Renewal.RENEWED:
        return outcomes
    for i in range(0, len(grants), TOGETHER):
        outcomes.update(_look_at(session, grants[i : i + TOGETHER], deadline))
    return outcomes


def _look_at(session: Session, grants: Sequence[Grant], deadline: float) -> dict[str, Renewal]:
    """Tell of those whose nodes are gone: broken, since the session lives."""
    places = [session.places.get(grant.claim.id) for grant in grants]
    unseen = [one for one in places if one is not None and not one.is_seen]
    found = {
        grant.claim.id: Renewal.LOST
        for grant, one in zip(grants, places, strict=True)
        if one is None
    }
    if not unseen:
        return found
    for one in unseen:
        one.is_seen = True  # before it is asked for: the watch may speak at once
    watches = session.watches
    try:
        answers = session.wire.ask(
            *(requests.GetData(one.path, watches.on(one.path, one.claim.id)) for one in unseen),
            deadline=deadline,
        )
    except LockError:
        for one in unseen:
            one.is_seen = False
        return found
    for one, answer in zip(unseen, answers, strict=True):
        if is_missing(answer):
            watches.drop(one.path)
            found[one.claim.id] = Renewal.BROKEN
    return found
