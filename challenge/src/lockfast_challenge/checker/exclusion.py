"""Checks mutual exclusion: the weight inside never exceeds the capacity, and tokens grow."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from lockfast_challenge.checker.holds import CertainHold, all_grants
from lockfast_challenge.checker.search import is_possible, settled, steps
from lockfast_challenge.outcome import RunFinding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lockfast_challenge.checker.holds import AnsweredGrant
    from lockfast_challenge.history import HistoryEvent, HistoryOperation
    from lockfast_challenge.outcome import ExemptFinding, Exemption, Recorded, Strike


# The fewest events that show a hold to a human reader.


class Examples:
    """The events of a history, indexed by hold."""

    def __init__(self, events: Iterable[HistoryEvent]) -> None:
        self._of_hold: defaultdict[tuple[str, int], list[HistoryEvent]] = defaultdict(list)
        for event in events:
            self._of_hold[event.client, event.hold].append(event)

    def of(self, holds: Iterable[AnsweredGrant]) -> tuple[HistoryEvent, ...]:
        """Return, in order of time, the events of the holds: each acquire, and the last proof."""
        found = [event for hold in holds for event in self._of(hold)]
        return tuple(sorted(found, key=lambda event: event.at))

    def _of(self, hold: AnsweredGrant) -> Sequence[HistoryEvent]:
        mine = self._of_hold[hold.client, hold.number]
        until = hold.until if isinstance(hold, CertainHold) else None
        last = {one.number for one in mine if one.phase == "invoked" and one.at == until}
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


# The quick judge: one pass over the grants of each name, sorted by time.
#
# Apart from tokens, a history is wrong only if certain holds overlap, because an acquire that takes
# effect at its reply, and a release that takes effect at its invocation, leave the most room for
# all other holds. `search.py` tries every order instead; the tests use the search as the referee.


@dataclass(frozen=True, slots=True)
class Violation:
    """Something that no correct lock does, and the grants that show it."""

    kind: ExemptFinding
    name: str
    at: float
    holds: tuple[AnsweredGrant, ...]
    is_by_exclusion: bool = False
    """Whether two tokens are in the wrong order only because one hold excluded the other.

    If the lock let both in at once, the tokens may be right.
    """

    def __str__(self) -> str:
        among = "; ".join(map(str, self.holds))
        if self.kind == "token":
            return f"{self.name}: a token that is not larger than an earlier one: {among}"
        return f"{self.name}: more inside than the door lets in at {self.at:.3f}: {among}"


def violations(grants: Iterable[AnsweredGrant]) -> list[Violation]:
    """Return the violations in order of time; empty if a correct lock could give these grants."""
    by_name: defaultdict[str, list[AnsweredGrant]] = defaultdict(list)
    for grant in sorted(grants, key=lambda one: one.granted):
        if grant.within is None:  # a client that re-enters is already inside
            by_name[grant.name].append(grant)
    found = [
        violation
        for each in by_name.values()
        for violation in (*_overlaps(_certain(each)), *_token_violations(each))
    ]
    return sorted(found, key=lambda violation: violation.at)


def _certain(grants: Iterable[AnsweredGrant]) -> list[CertainHold]:
    return [one for one in grants if isinstance(one, CertainHold)]


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


# The order of tokens. Tokens order exclusive grants; shared ones may get theirs in any order.
#
# Of two exclusive grants, one certainly came first
#
# - if its reply arrived before the other was requested, whatever became of its holder, and
# - if it was certainly held, and the other was certainly held after that.
#
# And two grants never have the same token, whichever came first.


def _token_violations(grants: Sequence[AnsweredGrant]) -> Iterator[Violation]:
    """Yield a violation for each token that is not above that of an earlier grant.

    Of several such earlier grants, the latest is shown, because it has the fewest excuses.
    """
    exclusive = [one for one in grants if one.is_exclusive and one.token is not None]
    certain = _certain(exclusive)
    by_time = _behind(exclusive, exclusive, ended=_granted, began=_asked)
    by_exclusion = _behind(certain, certain, ended=_until, began=_granted)
    seen = set()
    for pairs, is_by_exclusion in (
        (by_time, False),
        (_same_tokens(exclusive), False),
        (by_exclusion, True),
    ):
        for pair in pairs:
            if pair not in seen:
                seen.add(pair)
                at = pair[1].granted
                yield Violation("token", pair[0].name, at, pair, is_by_exclusion)


GrantT = TypeVar("GrantT", bound="AnsweredGrant")


def _behind(
    earlier: Iterable[GrantT],
    later: Iterable[GrantT],
    *,
    ended: Callable[[GrantT], float],
    began: Callable[[GrantT], float],
) -> Iterator[tuple[GrantT, GrantT]]:
    """Yield each grant with a token that is too small, after the latest grant that shows it.

    One grant comes before another if it ended before the other began.
    """
    waiting = sorted(earlier, key=ended, reverse=True)
    # What has ended, without those that a later one with at least the same token makes irrelevant:
    # so the tokens fall from one to the next.
    before: list[GrantT] = []
    for grant in sorted(later, key=began):
        while waiting and ended(waiting[-1]) < began(grant):
            one = waiting.pop()
            while before and _token(before[-1]) <= _token(one):
                before.pop()
            before.append(one)
        first_below = bisect_left(before, True, key=lambda one: _token(one) < _token(grant))
        if first_below:
            yield before[first_below - 1], grant


def _same_tokens(grants: Iterable[AnsweredGrant]) -> Iterator[tuple[AnsweredGrant, AnsweredGrant]]:
    last: dict[int, AnsweredGrant] = {}
    for grant in grants:
        token = _token(grant)
        if token in last:
            yield last[token], grant
        last[token] = grant


def _asked(grant: AnsweredGrant) -> float:
    return grant.asked


def _granted(grant: AnsweredGrant) -> float:
    return grant.granted


def _until(hold: CertainHold) -> float:
    return hold.until


def _token(grant: AnsweredGrant) -> int:
    return -1 if grant.token is None else grant.token


# Violations that the store does not guarantee to prevent. They are counted, but are not the fault
# of the lock.

LATE_REPLY_SECONDS = 0.25
"""How long after the end of a fault the reply to an earlier grant may still arrive, in seconds."""


def documented_reason(recorded: Recorded, violation: Violation) -> str:
    """Return the sentence of the store's page that allows this violation, or an empty string."""
    for exemption in recorded.exemptions:
        for strike in recorded.strikes:
            if strike.kind == exemption.fault and _excuses(exemption, strike, violation, recorded):
                return exemption.sentence
    return ""


def _excuses(
    exemption: Exemption, strike: Strike, violation: Violation, recorded: Recorded
) -> bool:
    first, last = violation.holds[0], violation.holds[-1]
    if exemption.finding == "token":
        return violation.kind == "token" and _lost_token(exemption, strike, first, last, recorded)
    if violation.kind == "overlap":
        # Any of them may have been lost, since replies may come in another order than grants.
        return any(
            _ended_early(exemption, strike, hold, recorded, at=violation.at)
            for hold in violation.holds
        )
    # The later one may have come in first, and have lost its hold to the other.
    return violation.is_by_exclusion and _ended_early(
        exemption, strike, replace(last, granted=last.asked), recorded, at=first.granted
    )


def _ended_early(
    exemption: Exemption, strike: Strike, hold: AnsweredGrant, recorded: Recorded, *, at: float
) -> bool:
    """Return whether the strike can have ended this hold in the store while it was trusted at `at`.

    A fault does not shorten a hold that was granted after the fault, so an overlap with such a hold
    has no excuse. A hold that the fault did shorten is trusted until its lease ends. A fault of the
    clock shortens holds when the clock is set ahead: at the start of a jump ahead, and at the end
    of a jump back.
    """
    spans = [(strike.began, strike.ended)]
    if exemption.clock is not None:
        moves = [one for one in strike.clock_moves if one.direction == exemption.clock]
        spans = [(one.since, one.until) for one in moves]
    return any(
        began <= at <= ended + recorded.ttl
        and hold.asked <= ended
        and _may_be_granted_by(ended, hold, recorded)
        for began, ended in spans
    )


def _may_be_granted_by(ended: float, hold: AnsweredGrant, recorded: Recorded) -> bool:
    """Return whether the store may have granted the hold by then, though the reply came later.

    A fault of the client or its connections may have held the reply back meanwhile.
    """
    by = ended + LATE_REPLY_SECONDS
    return hold.granted <= by or any(
        one.name and one.began <= by and hold.granted <= one.ended + LATE_REPLY_SECONDS
        for one in recorded.strikes
    )


def _lost_token(
    exemption: Exemption,
    strike: Strike,
    first: AnsweredGrant,
    last: AnsweredGrant,
    recorded: Recorded,
) -> bool:
    """Return whether the strike can have lost the first token, so that the last one is too small.

    A store whose tokens follow its clock gives tokens that are too small only if its clock has been
    set back as well, and only until the clock has made up for that.
    """
    if not (first.asked <= strike.ended and strike.began <= last.granted):
        return False
    if exemption.clock is None:
        return True
    return any(
        one.since <= last.granted
        and each.began <= first.granted
        and last.asked <= one.until + abs(one.seconds)
        for each in recorded.strikes
        for one in each.clock_moves
        if one.direction == exemption.clock
    )


VIOLATIONS_SHOWN = 20
"""Maximum number of violations of each kind to prove and show, since there may be thousands."""


def exclusion_findings(recorded: Recorded, done: Sequence[HistoryOperation]) -> list[RunFinding]:
    """Return a finding for each violation; the first violations of each kind are proven."""
    examples = Examples(recorded.events)
    counted: Counter[str] = Counter()
    found = []
    for violation in violations(all_grants(done)):
        counted[violation.kind] += 1
        is_shown = counted[violation.kind] <= VIOLATIONS_SHOWN
        shown = proven(violation) if is_shown else violation
        if shown is None:
            continue
        reason = documented_reason(recorded, shown)
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

    def is_wrong(part: Sequence[AnsweredGrant]) -> bool:
        return any(one.kind == violation.kind for one in violations(part))

    holds = smallest(violation.holds, is_wrong)
    if is_possible(settled(steps(holds))):
        return None
    return replace(violation, holds=tuple(holds))
