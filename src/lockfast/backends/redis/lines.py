"""Which claims of a client wait for which name, and when each name is spoken of next; no I/O.

A heartbeat is for a name, not for a claim, and its answer concerns the claims on that name
alone: what it costs must not depend on how many others wait. Whoever uses this holds a lock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lockfast.backends.redis import answers
    from lockfast.model import Claim

BEAT = 2.0
"""How often waiting clients say that they live; the scripts have patience for three, and in
doubt for less than two."""

ALONG = 0.25
"""A name whose heartbeat is due within so long is spoken of along with others."""

NEVER = float("inf")


@dataclass(slots=True)
class Waiting:
    """A claim that stands in line; `epoch` is what the store knew its client by.

    So it was answered to a request that was sent at `asked_at`, when `last_token` was the
    last that was given for the name. With a token it was admitted.
    """

    claim: Claim
    epoch: int
    last_token: int
    asked_at: float
    token: int | None = None

    def hear(self, ring: answers.Ring) -> None:
        """Take a message that it was admitted, if that was after the last answer.

        Tokens only grow. So one that is larger was given later than the answer, and the
        window that came with it began after we asked. A message with another is of an
        earlier admission, which is over: else the answer would have been a grant.
        """
        if ring.token > max(self.last_token, self.token or 0):
            self.token = ring.token


@dataclass(slots=True, eq=False)
class Line:
    """The claims of one client that wait for one name."""

    name: str
    client: str
    claims: dict[str, Waiting] = field(default_factory=dict)
    beat_at: float = NEVER
    """When to say again that they wait."""
    ends_at: float = NEVER
    """When the first of those inside may be over, so that the line could move."""
    planned: float = NEVER


class Lines:
    """All lines in which claims of a client stand, in the order in which they are due."""

    def __init__(self) -> None:
        self.waiting: dict[str, Waiting] = {}
        self._lines: dict[tuple[str, str], Line] = {}
        self._plan: list[tuple[float, int, Line]] = []
        self._numbers = count()

    def stands(self, waiting: Waiting, *, now: float, ends_at: float) -> None:
        """Know that a claim waits, and was heard just now."""
        claim = waiting.claim
        key = (claim.name, claim.client)
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = Line(*key, beat_at=now + BEAT)
        line.claims[claim.id] = self.waiting[claim.id] = waiting
        line.ends_at = ends_at
        self._put(line)

    def forget(self, claim_id: str) -> None:
        """Know that a claim no longer waits."""
        waiting = self.waiting.pop(claim_id, None)
        if waiting is None:
            return
        key = (waiting.claim.name, waiting.claim.client)
        line = self._lines[key]
        del line.claims[claim_id]
        if not line.claims:
            del self._lines[key]
            line.planned = NEVER

    def of_name(self, name: str) -> list[str]:
        """Return the claims that wait for a name."""
        lines = [one for one in self._lines.values() if one.name == name]
        return [claim_id for one in lines for claim_id in one.claims]

    def due_at(self) -> float:
        """Return when a line is to be spoken of next."""
        plan = self._plan
        while plan and plan[0][2].planned != plan[0][0]:
            heappop(plan)  # planned anew since, or gone
        return plan[0][0] if plan else NEVER

    def take_due(self, now: float, *, most: int) -> list[Line]:
        """Return some lines that are due, and what goes along; each is planned anew."""
        found: list[Line] = []
        while len(found) < most and (moment := self.due_at()) <= now + ALONG:
            line = self._plan[0][2]
            if moment > now and line.beat_at > moment:
                break  # the end of a hold, and asking sooner would not make it come
            heappop(self._plan)
            line.beat_at, line.ends_at, line.planned = now + BEAT, NEVER, NEVER
            found.append(line)
        for line in found:
            self._put(line)
        return found

    def learn(self, line: Line, *, ends_at: float, epoch: int) -> list[str]:
        """Take the answer to a heartbeat; return the claims that lost their place."""
        if not line.claims:
            return []
        line.ends_at = ends_at
        self._put(line)
        return [claim_id for claim_id, one in line.claims.items() if one.epoch != epoch]

    def _put(self, line: Line) -> None:
        moment = min(line.beat_at, line.ends_at)
        if moment != line.planned:
            line.planned = moment
            heappush(self._plan, (moment, next(self._numbers), line))
