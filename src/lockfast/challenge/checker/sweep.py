"""The quick judge: one pass over the certain holds of each name, sorted by time.

That two certain holds overlap is all that can be wrong with who is inside: to take effect at its
answer is the best that an acquire can do, and at its invocation the best that a release can.
`search.py` tries every order instead; the tests let it be the referee.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lockfast.challenge.checker.holds import Hold


@dataclass(frozen=True, slots=True)
class Violation:
    """What no lock would have done, and the holds that show it."""

    kind: Literal["overlap", "token"]
    name: str
    at: float
    holds: tuple[Hold, ...]

    def __str__(self) -> str:
        among = "; ".join(map(str, self.holds))
        if self.kind == "token":
            return f"{self.name}: a token that is not larger than an earlier one: {among}"
        return f"{self.name}: more inside than the door lets in at {self.at:.3f}: {among}"


def violations(holds: Iterable[Hold]) -> list[Violation]:
    """Return what is wrong, by time; nothing for what can have been a lock."""
    by_name: defaultdict[str, list[Hold]] = defaultdict(list)
    for hold in sorted(holds, key=lambda one: one.granted):
        if hold.within is None:  # who enters again is inside already
            by_name[hold.name].append(hold)
    found = [
        violation
        for each in by_name.values()
        for judge in (_overlaps, _tokens)
        for violation in judge(each)
    ]
    return sorted(found, key=lambda violation: violation.at)


def _overlaps(holds: Sequence[Hold]) -> list[Violation]:
    inside: list[tuple[float, int, Hold]] = []
    weight, found = 0, []
    for number, hold in enumerate(holds):
        while inside and inside[0][0] < hold.granted:
            weight -= heapq.heappop(inside)[2].weight
        weight += hold.weight
        heapq.heappush(inside, (hold.until, number, hold))
        if weight > hold.capacity:
            together = sorted((one for _, _, one in inside), key=lambda one: one.granted)
            found.append(Violation("overlap", hold.name, hold.granted, tuple(together)))
    return found


def _tokens(holds: Sequence[Hold]) -> list[Violation]:
    """Find a hold whose token is not above that of every hold before it.

    Tokens order exclusive holds, and of two of those the one that ended first was granted first;
    those who share a name may be given theirs in any order.
    """
    going: list[tuple[float, int, Hold]] = []
    largest: Hold | None = None
    found = []
    with_token = [hold for hold in holds if hold.is_exclusive and hold.token is not None]
    for number, hold in enumerate(with_token):
        while going and going[0][0] < hold.granted:
            ended = heapq.heappop(going)[2]
            if largest is None or _token(ended) > _token(largest):
                largest = ended
        if largest is not None and _token(hold) <= _token(largest):
            found.append(Violation("token", hold.name, hold.granted, (largest, hold)))
        heapq.heappush(going, (hold.until, number, hold))
    return found


def _token(hold: Hold) -> int:
    return -1 if hold.token is None else hold.token
