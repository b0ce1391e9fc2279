"""The slow judge: looks for an order of all operations that one door could have seen.

It knows nothing but the model: whether a client may come in, and when it has left. An operation
takes effect once, somewhere between its invocation and its answer; one without an answer at any
later time, or never. The search goes through every order that this leaves (Wing and Gong), and
through no state twice (Lowe). It is the referee of `sweep.py`, for small histories: what is wrong
in a history with many unanswered operations can take it longer than anybody waits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lockfast.challenge.checker.holds import Hold


@dataclass(frozen=True, slots=True)
class Step:
    """What a hold does to the door, and between which times; `latest` is inf if it may never."""

    does: Literal["enter", "leave"]
    hold: Hold
    earliest: float
    latest: float


@dataclass(frozen=True, slots=True)
class Door:
    """Who is inside, how much they weigh together, and the last token of an exclusive hold."""

    inside: frozenset[tuple[str, int]] = frozenset()
    weight: int = 0
    token: int = -1

    def after(self, step: Step) -> Door | None:
        """Return the door after this step, or None where it cannot happen now."""
        hold = step.hold
        key = (hold.client, hold.number)
        adds = hold.weight
        if hold.within is not None:
            adds = 0  # who enters again needs no room, but must be inside
        if step.does == "leave":
            if key not in self.inside:
                return None
            return Door(self.inside - {key}, self.weight - adds, self.token)
        if hold.within is not None and (hold.client, hold.within) not in self.inside:
            return None
        if self.weight + adds > hold.capacity:
            return None
        token = self.token
        if hold.token is not None and hold.is_exclusive and hold.within is None:
            if hold.token <= token:
                return None
            token = hold.token
        return Door(self.inside | {key}, self.weight + adds, token)


def steps(holds: Iterable[Hold]) -> list[Step]:
    """Return what the holds of one name did, by the earliest time at which they can have.

    A lease that was not released ends by itself, at any time after it was last seen.
    """
    found = []
    for hold in holds:
        found.append(Step("enter", hold, hold.asked, hold.granted))
        latest = inf if hold.released is None else hold.released
        found.append(Step("leave", hold, hold.until, latest))
    return sorted(found, key=lambda step: step.earliest)


def settled(todo: Iterable[Step]) -> list[Step]:
    """Return them with nothing left open: what may have ended at any time ended at once.

    That is the best that it can have done for all others, so the answer stays the same, and the
    search no longer goes through every time at which it may have been.
    """
    return [replace(step, latest=step.earliest) if step.latest == inf else step for step in todo]


def is_possible(todo: Sequence[Step], *, most: int = 2_000_000) -> bool | None:
    """Return whether one door can have seen all this, or None when it takes too long to say."""
    # A position is how many steps from the start are done, and which of those after them.
    start = (0, 0, Door())
    seen = {start}
    stack = [start]
    while stack:
        done, later, door = stack.pop()
        if done == len(todo):
            return True
        for number in _next(todo, done, later):
            after = door.after(todo[number])
            if after is None:
                continue
            position = (*_advance(done, later | 1 << (number - done)), after)
            if position not in seen:
                if len(seen) >= most:
                    return None
                seen.add(position)
                stack.append(position)
        if _may_all_be_left_out(todo, done, later):
            return True
    return False


def _next(todo: Sequence[Step], done: int, later: int) -> list[int]:
    """Return the steps that can be next: none that began after another had to be over."""
    first_end = inf
    found = []
    for number in range(done, len(todo)):
        step = todo[number]
        if step.earliest > first_end:
            break
        if not later >> (number - done) & 1:
            found.append(number)
            first_end = min(first_end, step.latest)
    return [number for number in found if todo[number].earliest <= first_end]


def _advance(done: int, later: int) -> tuple[int, int]:
    while later & 1:
        done, later = done + 1, later >> 1
    return done, later


def _may_all_be_left_out(todo: Sequence[Step], done: int, later: int) -> bool:
    return all(
        later >> (number - done) & 1 or todo[number].latest == inf
        for number in range(done, len(todo))
    )
