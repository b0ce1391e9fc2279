"""Which claims of a client wait for which name, and when each heartbeat is due. No I/O.

A heartbeat is for a name, not for a claim, so that its cost does not depend on how many claims
wait. Its reply concerns only the claims for that name. Callers must hold a lock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING

from lockfast.model import FOREVER

if TYPE_CHECKING:
    from lockfast.backends.redis import replies
    from lockfast.model import Claim

HEARTBEAT_SECONDS = 2.0
"""Heartbeat interval of waiting clients, in seconds. The scripts consider a client dead after three
missed heartbeats, or after one if an admission window has run out unanswered meanwhile."""

HEARTBEAT_TOGETHER_SECONDS = 0.25
"""A name whose heartbeat is due within this time is added to the batch."""


@dataclass(slots=True)
class WaitingClaim:
    """A claim that waits in line; `epoch` is its client's epoch at the store.

    `epoch` and `last_token`, the last token granted for the name, are from the reply to a request
    that was sent at `asked_at`. If `token` is set, the claim was admitted.
    """

    claim: Claim
    epoch: int
    last_token: int
    asked_at: float
    token: int | None = None

    def deliver(self, wakeup: replies.WakeupMessage) -> None:
        """Record a message that the claim was admitted, unless the message is outdated.

        Tokens only grow. So a token larger than the last reply's was granted after that reply, and
        its admission window began after we sent the request. A message with any other token is
        about an earlier admission, which had ended by then, because otherwise the reply would have
        been a grant.
        """
        if wakeup.token > max(self.last_token, self.token or 0):
            self.token = wakeup.token


@dataclass(slots=True, eq=False)
class NameWaiters:
    """The claims of one client that wait for one name."""

    name: str
    client: str
    claims: dict[str, WaitingClaim] = field(default_factory=dict)
    beat_at: float = FOREVER
    """When the next heartbeat is due."""
    ends_at: float = FOREVER
    """When the first of the claims inside may end, so that the line could move."""
    planned: float = FOREVER


class HeartbeatSchedule:
    """All names that claims of a client wait for, in the order in which heartbeats are due."""

    def __init__(self) -> None:
        self.waiting: dict[str, WaitingClaim] = {}
        self._lines: dict[tuple[str, str], NameWaiters] = {}
        self._plan: list[tuple[float, int, NameWaiters]] = []
        self._numbers = count()

    def stands(self, waiting: WaitingClaim, *, now: float, ends_at: float) -> None:
        """Record that a claim waits; call this just after the store has answered its request."""
        claim = waiting.claim
        key = (claim.name, claim.client)
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = NameWaiters(*key, beat_at=now + HEARTBEAT_SECONDS)
        line.claims[claim.id] = self.waiting[claim.id] = waiting
        line.ends_at = ends_at
        self._put(line)

    def forget(self, claim_id: str) -> None:
        """Record that a claim no longer waits."""
        waiting = self.waiting.pop(claim_id, None)
        if waiting is None:
            return
        key = (waiting.claim.name, waiting.claim.client)
        line = self._lines[key]
        del line.claims[claim_id]
        if not line.claims:
            del self._lines[key]
            line.planned = FOREVER

    def of_name(self, name: str) -> list[str]:
        """Return the claims that wait for a name."""
        lines = [one for one in self._lines.values() if one.name == name]
        return [claim_id for one in lines for claim_id in one.claims]

    def due_at(self) -> float:
        """Return when the next heartbeat is due."""
        plan = self._plan
        while plan and plan[0][2].planned != plan[0][0]:
            heappop(plan)  # the name was rescheduled since, or is gone
        return plan[0][0] if plan else FOREVER

    def take_due(self, now: float, *, most: int) -> list[NameWaiters]:
        """Take up to `most` names that are due, or nearly due, for a batch, and reschedule them."""
        found: list[NameWaiters] = []
        while len(found) < most and (moment := self.due_at()) <= now + HEARTBEAT_TOGETHER_SECONDS:
            line = self._plan[0][2]
            if moment > now and line.beat_at > moment:
                break  # due when a hold ends, and an earlier heartbeat would be useless
            heappop(self._plan)
            line.beat_at, line.ends_at, line.planned = now + HEARTBEAT_SECONDS, FOREVER, FOREVER
            found.append(line)
        for line in found:
            self._put(line)
        return found

    def learn(self, line: NameWaiters, *, ends_at: float, epoch: int) -> list[str]:
        """Record the reply to a heartbeat; return the claims that lost their place."""
        if not line.claims:
            return []
        line.ends_at = ends_at
        self._put(line)
        return [claim_id for claim_id, one in line.claims.items() if one.epoch != epoch]

    def _put(self, line: NameWaiters) -> None:
        moment = min(line.beat_at, line.ends_at)
        if moment != line.planned:
            line.planned = moment
            heappush(self._plan, (moment, next(self._numbers), line))
