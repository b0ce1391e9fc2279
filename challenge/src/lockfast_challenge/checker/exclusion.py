"""Checks mutual exclusion: the weight inside never exceeds the capacity, and tokens grow."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeVar

from lockfast_challenge.checker.holds import definite_holds
from lockfast_challenge.checker.search import is_possible, settled, steps
from lockfast_challenge.outcome import RunFinding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lockfast_challenge.checker.holds import CertainHold
    from lockfast_challenge.history import HistoryEvent, HistoryOperation
    from lockfast_challenge.outcome import Recorded, Strike


# The fewest events that show a hold to a human reader.


class Examples:
    """The events of a history, indexed by hold."""

    def __init__(self, events: Iterable[HistoryEvent]) -> None:
        self._of_hold: defaultdict[tuple[str, int], list[HistoryEvent]] = defaultdict(list)
        for event in events:
            self._of_hold[event.client, event.hold].append(event)

    def of(self, holds: Iterable[CertainHold]) -> tuple[HistoryEvent, ...]:
        """Return, in order of time, the events of the holds: each acquire, and the last proof."""
        found = [event for hold in holds for event in self._of(hold)]
        return tuple(sorted(found, key=lambda event: event.at))

    def _of(self, hold: CertainHold) -> Sequence[HistoryEvent]:
        mine = self._of_hold[hold.client, hold.number]
        last = {one.number for one in mine if one.phase == "invoked" and one.at == hold.until}
        return [one for one in mine if one.act == "acquire" or one.number in last]


# The smallest part of a history that is still wrong, for a human reader.
#
# Removing a whole hold never makes a correct history wrong, so any part that is still wrong proves
# that the whole history is wrong (delta debugging, Zeller and Hildebrandt).

T = TypeVar("T")


def smallest(items: Sequence[T], is_wrong: Callable[[Sequence[T]], bool]) -> list[T]:
    """Return a minimal part of the items, in their order, that is still wrong.

    Without any one of its items, the part would not be wrong. The items as a whole must be wrong.
    """
    left = list(items)
    parts = 2
    while len(left) > 1:
        size = -(-len(left) // parts)
        for start in range(0, len(left), size):
            rest = left[:start] + left[start + size :]
            if rest and is_wrong(rest):
                left, parts = rest, max(parts - 1, 2)
                break
        else:
            if size == 1:
                break
            parts = min(parts * 2, len(left))
    return left


# The quick judge: one pass over the certain holds of each name, sorted by time.
#
# Apart from tokens, a history is wrong only if certain holds overlap, because an acquire that takes
# effect at its reply, and a release that takes effect at its invocation, leave the most room for
# all other holds. `search.py` tries every order instead; the tests use the search as the referee.


@dataclass(frozen=True, slots=True)
class Violation:
    """Something that no correct lock does, and the holds that show it."""

    kind: Literal["overlap", "token"]
    name: str
    at: float
    holds: tuple[CertainHold, ...]

    def __str__(self) -> str:
        among = "; ".join(map(str, self.holds))
        if self.kind == "token":
            return f"{self.name}: a token that is not larger than an earlier one: {among}"
        return f"{self.name}: more inside than the door lets in at {self.at:.3f}: {among}"


def violations(holds: Iterable[CertainHold]) -> list[Violation]:
    """Return the violations in order of time; empty if a correct lock could allow these holds."""
    by_name: defaultdict[str, list[CertainHold]] = defaultdict(list)
    for hold in sorted(holds, key=lambda one: one.granted):
        if hold.within is None:  # a client that re-enters is already inside
            by_name[hold.name].append(hold)
    found = [
        violation
        for each in by_name.values()
        for judge in (_overlaps, _tokens)
        for violation in judge(each)
    ]
    return sorted(found, key=lambda violation: violation.at)


def _overlaps(holds: Sequence[CertainHold]) -> list[Violation]:
    inside: list[tuple[float, int, CertainHold]] = []
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


def _tokens(holds: Sequence[CertainHold]) -> list[Violation]:
    """Return a violation for each hold whose token is not above those of all holds before it.

    Tokens order exclusive holds; of two exclusive holds, the one that ended before the other was
    granted came first. Shared holds may get their tokens in any order.
    """
    going: list[tuple[float, int, CertainHold]] = []
    largest: CertainHold | None = None
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


def _token(hold: CertainHold) -> int:
    return -1 if hold.token is None else hold.token


# Violations that the store does not guarantee to prevent. They are counted, but are not the fault
# of the lock.

LATE_REPLY_SECONDS = 0.25
"""How long after the end of a fault the reply to an earlier grant may still arrive, in seconds."""


def documented_reason(recorded: Recorded, violation: Violation) -> str:
    """Return the reason for which the store's page excuses this violation, or an empty string."""
    for strike in recorded.strikes:
        reason = recorded.forgives.get(strike.kind)
        if reason and _can_have_caused(strike, violation, ttl=recorded.ttl):
            return reason
    return ""


def _can_have_caused(strike: Strike, violation: Violation, *, ttl: float) -> bool:
    """Return whether the strike could have affected the violation's first hold.

    The first hold is the hold that all other holds of the violation overlap. A fault does not
    shorten a hold that was granted after the fault, so an overlap with such a hold has no excuse. A
    hold that the fault did shorten is trusted until its lease ends. A store that lost data issues
    tokens that are too small until a token exceeds that of the hold, and this may take any time.
    """
    if strike.began > violation.at or not _was_touched(violation.holds[0], strike):
        return False
    return violation.kind == "token" or violation.at <= strike.ended + ttl


def _was_touched(hold: CertainHold, strike: Strike) -> bool:
    return hold.asked <= strike.ended and hold.granted <= strike.ended + LATE_REPLY_SECONDS


VIOLATIONS_SHOWN = 20
"""Maximum number of violations of each kind to prove and show, since there may be thousands."""


def exclusion_findings(recorded: Recorded, done: Sequence[HistoryOperation]) -> list[RunFinding]:
    """Return a finding for each violation; the first violations of each kind are proven."""
    examples = Examples(recorded.events)
    counted: Counter[str] = Counter()
    forgotten: dict[CertainHold, str] = {}
    found = []
    for violation in violations(definite_holds(done)):
        counted[violation.kind] += 1
        is_shown = counted[violation.kind] <= VIOLATIONS_SHOWN
        shown = proven(violation) if is_shown else violation
        if shown is None:
            continue
        reason = documented_reason(recorded, shown)
        if violation.kind == "token":
            # A store that forgot a hold issues tokens that are too small for a number of grants,
            # not for a fixed time. So every further token below that of the same hold has the same
            # cause.
            reason = reason or forgotten.get(violation.holds[0], "")
            forgotten[violation.holds[0]] = reason
        found.append(
            RunFinding(
                violation.kind,
                violation.at,
                f"{shown}, as documented: {reason}" if reason else str(shown),
                clients=tuple(dict.fromkeys(hold.client for hold in shown.holds)),
                is_documented=bool(reason),
                example=examples.of(shown.holds) if is_shown else (),
            )
        )
    return found


def proven(violation: Violation) -> Violation | None:
    """Return the violation with only the holds that prove it; None if the holds have a valid order.

    The search covers only the holds of the violation, because holds that are impossible together
    stay impossible when other holds are added.
    """

    def is_wrong(part: Sequence[CertainHold]) -> bool:
        return any(one.kind == violation.kind for one in violations(part))

    holds = smallest(violation.holds, is_wrong)
    if is_possible(settled(steps(holds))):
        return None
    return replace(violation, holds=tuple(holds))
