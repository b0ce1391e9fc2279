"""What each client did, as it is drawn: stretches of time and marks; no picture yet.

The line between what is certain and what may be is the checker's (`checker/holds.py`): a hold is
certain up to its last proof, and after that nobody knows.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from lockfast.challenge.history import NotAHistory, operations

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lockfast.challenge.history import Event, Operation

Doing = Literal["waiting", "unanswered", "holding", "perhaps"]
"""`unanswered`: asked, and never told; `perhaps`: held a moment ago, and nothing proves it now."""

Saw = Literal["check", "refused", "stop"]
"""`refused` got nothing; `stop` was told that what it had is over."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """What one client did for a while."""

    begin: float
    end: float
    doing: Doing
    client: str
    hold: int
    name: str
    token: int | None = None
    is_inner: bool = False
    """Whether it entered again what it held already."""


@dataclass(frozen=True, slots=True)
class Mark:
    """What one client saw at one moment."""

    at: float
    saw: Saw
    client: str
    reason: str = ""


@dataclass(slots=True)
class Row:
    """All lives of one client."""

    client: str
    stretches: list[Stretch] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)


def rows(events: Iterable[Event], *, end: float, ttl: float | None = None) -> list[Row]:
    """Return a row for each client, up to `end`.

    What nobody proved any more lasts at most a ttl, if one is given.
    """
    lives: defaultdict[str, list[Operation]] = defaultdict(list)
    for one in legible(events):
        lives[one.client].append(one)
    found = {seat(client): Row(seat(client)) for client in sorted(lives, key=natural)}
    until: dict[str, float] = {}  # the next life of the same client ends the one before
    for client in sorted(lives, key=natural, reverse=True):
        mine, row = lives[client], found[seat(client)]
        _draw(row, mine, until.get(row.client, end), ttl)
        until[row.client] = mine[0].invoked
    for row in found.values():
        row.stretches.sort(key=lambda one: one.begin)
        row.marks.sort(key=lambda one: one.at)
    return list(found.values())


def seat(client: str) -> str:
    """Return whose life it is: client 2.1 came when client 2 was killed."""
    return client.partition(".")[0]


def legible(events: Iterable[Event]) -> list[Operation]:
    """Return the operations of all clients whose events can have been written by one.

    A history that is wrong in itself is a finding, and the rest of it is still to be seen.
    """
    by_client: defaultdict[str, list[Event]] = defaultdict(list)
    for event in events:
        by_client[event.client].append(event)
    found: list[Operation] = []
    for each in by_client.values():
        try:
            found += operations(each)
        except NotAHistory:
            continue
    return sorted(found, key=lambda one: one.invoked)


def natural(client: str) -> list[tuple[int, str]]:
    """Return what sorts client 10 behind client 9."""
    return [
        (int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", client)
    ]


def _draw(row: Row, mine: Sequence[Operation], end: float, ttl: float | None) -> None:
    begins = [one.invoked for one in mine]
    of_hold: defaultdict[int, list[Operation]] = defaultdict(list)
    for number, one in enumerate(mine):
        of_hold[one.hold].append(one)
        if one.act == "acquire":
            _draw_acquire(row, one, begins[number + 1] if number + 1 < len(mine) else end)
        elif one.answered is not None:
            _draw_proof(row, one)
    for its in of_hold.values():
        _draw_hold(row, its, begins, end, ttl)


def _draw_acquire(row: Row, one: Operation, after: float) -> None:
    doing: Doing = "waiting" if one.answered is not None else "unanswered"
    until = after if one.answered is None else one.answered
    row.stretches.append(Stretch(one.invoked, until, doing, one.client, one.hold, one.name))
    if one.answered is not None and not one.is_ok:
        row.marks.append(Mark(one.answered, "refused", one.client, one.reason))


def _draw_proof(row: Row, one: Operation) -> None:
    if one.is_ok and one.act == "check":
        row.marks.append(Mark(one.invoked, "check", one.client))
    elif not one.is_ok and one.answered is not None:
        row.marks.append(Mark(one.answered, "stop", one.client, one.reason))


def _draw_hold(
    row: Row, its: Sequence[Operation], begins: Sequence[float], end: float, ttl: float | None
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
    else:  # it never said so: until it did something else, or for a ttl at most
        number = bisect_right(begins, until)
        over = begins[number] if number < len(begins) else end
        over = over if ttl is None else min(over, until + ttl)
    if until > granted.answered:
        row.stretches.append(_held(granted, granted.answered, until, "holding"))
    row.stretches.append(_held(granted, until, max(over, until), "perhaps"))


def _goes_on(one: Operation) -> bool:
    return one.act == "check" and one.is_ok


def _held(granted: Operation, begin: float, end: float, doing: Doing) -> Stretch:
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
