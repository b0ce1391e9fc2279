"""Figures of a run, and what each client did."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Literal

from lockfast_challenge.checker.holds import definite_holds
from lockfast_challenge.history import NotAHistory, operations

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lockfast_challenge.history import HistoryEvent, HistoryOperation
    from lockfast_challenge.outcome import Outcome, Strike


# What each client did, as stretches of time and marks, ready to be drawn.
#
# The checker (`checker/holds.py`) separates what is certain from what is possible: a hold is
# certain up to its last proof, and unknown after that.

Doing = Literal["waiting", "unanswered", "holding", "perhaps"]
"""`unanswered`: the acquire never got a reply; `perhaps`: nothing proves the hold any more."""

Saw = Literal["check", "refused", "stop"]
"""`refused`: the acquire failed; `stop`: the client learned that its hold has ended."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """One activity of one client, from `begin` to `end`."""

    begin: float
    end: float
    doing: Doing
    client: str
    hold: int
    name: str
    token: int | None = None
    is_inner: bool = False
    """Whether the client re-entered a hold of its own."""


@dataclass(frozen=True, slots=True)
class Mark:
    """What one client saw at one moment."""

    at: float
    saw: Saw
    client: str
    reason: str = ""


@dataclass(slots=True)
class ClientRow:
    """The lives of one client, which are its successive processes, in one row."""

    client: str
    stretches: list[Stretch] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)


def rows(
    events: Iterable[HistoryEvent], *, end: float, ttl: float | None = None
) -> list[ClientRow]:
    """Return a row for each client, up to `end`.

    If `ttl` is given, a hold is drawn for at most one ttl after its last proof.
    """
    lives: defaultdict[str, list[HistoryOperation]] = defaultdict(list)
    for one in consistent_operations(events):
        lives[one.client].append(one)
    found = {seat(client): ClientRow(seat(client)) for client in sorted(lives, key=natural)}
    until: dict[str, float] = {}  # each life of a client ends when the next one begins
    for client in sorted(lives, key=natural, reverse=True):
        mine, row = lives[client], found[seat(client)]
        _draw(row, mine, until.get(row.client, end), ttl)
        until[row.client] = mine[0].invoked
    for row in found.values():
        row.stretches.sort(key=lambda one: one.begin)
        row.marks.sort(key=lambda one: one.at)
    return list(found.values())


def seat(client: str) -> str:
    """Return the client to which this life belongs; for example, life 2.1 belongs to client 2."""
    return client.partition(".")[0]


def consistent_operations(events: Iterable[HistoryEvent]) -> list[HistoryOperation]:
    """Return the operations of all clients whose own events are consistent.

    Inconsistent events of one client are a separate finding, and all other clients are still shown.
    """
    by_client: defaultdict[str, list[HistoryEvent]] = defaultdict(list)
    for event in events:
        by_client[event.client].append(event)
    found: list[HistoryOperation] = []
    for each in by_client.values():
        try:
            found += operations(each)
        except NotAHistory:
            continue
    return sorted(found, key=lambda one: one.invoked)


def natural(client: str) -> list[tuple[int, str]]:
    """Return a sort key that puts client 10 after client 9."""
    return [
        (int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", client)
    ]


def _draw(row: ClientRow, mine: Sequence[HistoryOperation], end: float, ttl: float | None) -> None:
    begins = [one.invoked for one in mine]
    of_hold: defaultdict[int, list[HistoryOperation]] = defaultdict(list)
    for number, one in enumerate(mine):
        of_hold[one.hold].append(one)
        if one.act == "acquire":
            _draw_acquire(row, one, begins[number + 1] if number + 1 < len(mine) else end)
        elif one.answered is not None:
            _draw_proof(row, one)
    for its in of_hold.values():
        _draw_hold(row, its, begins, end, ttl)


def _draw_acquire(row: ClientRow, one: HistoryOperation, after: float) -> None:
    doing: Doing = "waiting" if one.answered is not None else "unanswered"
    until = after if one.answered is None else one.answered
    row.stretches.append(Stretch(one.invoked, until, doing, one.client, one.hold, one.name))
    if one.answered is not None and not one.is_ok:
        row.marks.append(Mark(one.answered, "refused", one.client, one.reason))


def _draw_proof(row: ClientRow, one: HistoryOperation) -> None:
    if one.is_ok and one.act == "check":
        row.marks.append(Mark(one.invoked, "check", one.client))
    elif not one.is_ok and one.answered is not None:
        row.marks.append(Mark(one.answered, "stop", one.client, one.reason))


def _draw_hold(
    row: ClientRow,
    its: Sequence[HistoryOperation],
    begins: Sequence[float],
    end: float,
    ttl: float | None,
) -> None:
    granted = next((one for one in its if one.act == "acquire" and one.is_ok), None)
    if granted is None or granted.answered is None:
        return
    later = [one for one in its if one.act != "acquire"]
    until = max([granted.answered, *(one.invoked for one in later if one.is_ok)])
    ends = [
        one.answered
        for one in later
        if one.answered is not None and one.answered >= until and not _goes_on(one)
    ]
    if ends:
        over = min(ends)
    else:  # no reply ended the hold, so draw it to the next operation, or for a ttl
        number = bisect_right(begins, until)
        over = begins[number] if number < len(begins) else end
        over = over if ttl is None else min(over, until + ttl)
    if until > granted.answered:
        row.stretches.append(_held(granted, granted.answered, until, "holding"))
    row.stretches.append(_held(granted, until, max(over, until), "perhaps"))


def _goes_on(one: HistoryOperation) -> bool:
    return one.act == "check" and one.is_ok


def _held(granted: HistoryOperation, begin: float, end: float, doing: Doing) -> Stretch:
    return Stretch(
        begin,
        end,
        doing,
        client=granted.client,
        hold=granted.hold,
        name=granted.name,
        token=granted.token,
        is_inner=granted.within is not None,
    )


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one strike."""

    strike: Strike
    grants: int
    """Number of grants while the strike lasted."""
    unavailable: float
    """Longest wait of a client while nobody was inside, among waits that overlap the strike."""
    recovered: float | None
    """Seconds from the end of the strike to the next grant of each name; None if none came."""


@dataclass(frozen=True, slots=True)
class CostOfKind:
    """The cost of all strikes of one kind."""

    kind: str
    strikes: int
    seconds: float
    grants: int
    unavailable: float
    """The largest `unavailable` of the strikes."""
    recovered: float | None
    """The median `recovered` of the strikes that were followed by a grant."""
    recovered_last: float | None
    """The largest `recovered`; None if nothing was granted after one of the strikes."""


@dataclass(frozen=True, slots=True)
class RunFigures:
    """The counts and times of a run; times are in seconds."""

    seconds: float
    operations: int
    grants: int
    hand_overs: int
    """Grants of a name to a client other than its previous holder."""
    hand_overs_per_second: float
    longest_wait: float
    median_wait: float
    refused: int
    unanswered: int
    """Acquires with an unknown outcome."""
    told_to_stop: int
    """Checks and releases that reported that the hold had ended."""
    writes: int
    turned_away: int
    """Writes that the token check refused."""
    lost_updates: int
    overlaps: int
    """Overlaps that the store's page does not excuse."""
    unfenced_overlaps: int
    """Overlaps that the store's page documents as possible."""
    costs: tuple[Cost, ...]

    @property
    def by_kind(self) -> list[CostOfKind]:
        """The cost of each kind of fault, in the order in which the kinds first struck."""
        of_kind: defaultdict[str, list[Cost]] = defaultdict(list)
        for one in self.costs:
            of_kind[one.strike.kind].append(one)
        return [_of_kind(kind, each) for kind, each in of_kind.items()]


def figures(outcome: Outcome) -> RunFigures:
    """Count what happened in a run."""
    done = consistent_operations(outcome.events)
    acquires = [one for one in done if one.act == "acquire"]
    granted = sorted((one for one in acquires if one.is_ok), key=_answered)
    waits = [_answered(one) - one.invoked for one in granted]
    seconds = max(outcome.ended - outcome.began, 0.0)
    handed = _hand_overs(granted)
    gaps = _gaps(done)
    times: defaultdict[str, list[float]] = defaultdict(list)
    for one in granted:
        times[one.name].append(_answered(one))
    overlaps = [one.is_documented for one in outcome.findings if one.kind == "overlap"]
    return RunFigures(
        seconds=seconds,
        operations=len(done),
        grants=len(granted),
        hand_overs=handed,
        hand_overs_per_second=handed / seconds if seconds else 0.0,
        longest_wait=max(waits, default=0.0),
        median_wait=median(waits) if waits else 0.0,
        refused=sum(one.answered is not None and not one.is_ok for one in acquires),
        unanswered=sum(one.answered is None for one in acquires),
        told_to_stop=sum(
            one.act != "acquire" and one.answered is not None and not one.is_ok for one in done
        ),
        writes=len(outcome.writes),
        turned_away=sum(not one.is_accepted for one in outcome.writes),
        lost_updates=sum(one.is_lost for one in outcome.writes),
        overlaps=overlaps.count(False),
        unfenced_overlaps=overlaps.count(True),
        costs=tuple(_cost(one, times, gaps) for one in outcome.strikes),
    )


def _answered(one: HistoryOperation) -> float:
    return one.invoked if one.answered is None else one.answered


def _hand_overs(granted: Iterable[HistoryOperation]) -> int:
    last: dict[str, str] = {}
    count = 0
    for one in granted:
        count += last.get(one.name, one.client) != one.client
        last[one.name] = one.client
    return count


Gaps = dict[str, "_Gaps"]
"""The gaps of each name."""


@dataclass(frozen=True, slots=True)
class _Gaps:
    """The time spans, in order, in which a client waited for one name and no hold was certain."""

    begins: list[float]
    ends: list[float]

    def longest(self, strike: Strike) -> float:
        """Return the longest gap that overlaps the strike."""
        first = bisect_left(self.ends, strike.began)
        last = bisect_right(self.begins, strike.ended)
        return max((self.ends[one] - self.begins[one] for one in range(first, last)), default=0.0)


def _gaps(done: Sequence[HistoryOperation]) -> Gaps:
    """Return the gaps of each name.

    A client without a reply does not count as waiting, because it may have been dead.
    """
    changes: defaultdict[str, list[tuple[float, int, int]]] = defaultdict(list)
    for one in done:
        if one.act == "acquire" and one.answered is not None:
            changes[one.name] += [(one.invoked, 1, 0), (one.answered, -1, 0)]
    for hold in definite_holds(done):
        changes[hold.name] += [(hold.granted, 0, 1), (hold.until, 0, -1)]
    return {name: _gaps_of(sorted(each)) for name, each in changes.items()}


def _gaps_of(changes: Iterable[tuple[float, int, int]]) -> _Gaps:
    found = _Gaps([], [])
    waiting = inside = 0
    since: float | None = None
    for at, waits, enters in changes:
        waiting, inside = waiting + waits, inside + enters
        if waiting and not inside:
            since = at if since is None else since
        elif since is not None:
            found.begins.append(since)
            found.ends.append(at)
            since = None
    return found


def _cost(strike: Strike, granted: Mapping[str, Sequence[float]], gaps: Gaps) -> Cost:
    """Return the cost of the strike for the names whose clients it struck."""
    names = [strike.name] if strike.name else list(granted)
    counts, recovered = 0, []
    for name in names:
        times = granted.get(name, ())
        after = bisect_right(times, strike.ended)
        counts += after - bisect_left(times, strike.began)
        recovered.append(times[after] - strike.ended if after < len(times) else None)
    known = [one for one in recovered if one is not None]
    return Cost(
        strike=strike,
        grants=counts,
        unavailable=max((gaps[name].longest(strike) for name in names if name in gaps), default=0),
        recovered=max(known) if known and len(known) == len(recovered) else None,
    )


def _of_kind(kind: str, costs: Sequence[Cost]) -> CostOfKind:
    known = [one.recovered for one in costs if one.recovered is not None]
    return CostOfKind(
        kind=kind,
        strikes=len(costs),
        seconds=sum(one.strike.ended - one.strike.began for one in costs),
        grants=sum(one.grants for one in costs),
        unavailable=max(one.unavailable for one in costs),
        recovered=median(known) if known else None,
        recovered_last=max(known) if len(known) == len(costs) else None,
    )
