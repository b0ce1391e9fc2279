"""The slow judge: searches for an order of all operations that one door could have seen.

The search knows only the model: whether a client may enter, and when it has left. An operation
takes effect once, at some time between its invocation and its reply. An operation without a reply
may take effect at any later time, or never. The search tries every order that this allows (Wing and
Gong), and visits no state twice (Lowe). The tests use it as the referee of `exclusion.py`, for
small histories only, because in a wrong history with many unanswered operations it can take far too
long.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Literal

from lockfast_challenge.checker.holds import CertainHold

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lockfast_challenge.checker.holds import AnsweredGrant


@dataclass(frozen=True, slots=True)
class ModelStep:
    """One change that a hold makes to the door; if it may never happen, `latest` is inf."""

    does: Literal["enter", "leave", "pass"]
    """`pass` is to enter and to leave at once, as a grant without any proof of a hold may."""
    hold: AnsweredGrant
    earliest: float
    latest: float


@dataclass(frozen=True, slots=True)
class ModelDoor:
    """The holds inside, their total weight, and the last token of an exclusive hold."""

    inside: frozenset[tuple[str, int]] = frozenset()
    weight: int = 0
    token: int = -1

    def after(self, step: ModelStep) -> ModelDoor | None:
        """Return the door after this step, or None if the step cannot happen now."""
        hold = step.hold
        key = (hold.client, hold.number)
        adds = hold.weight
        if hold.within is not None:
            adds = 0  # re-entering adds no weight, but the client must be inside
        if step.does == "leave":
            if key not in self.inside:
                return None
            return ModelDoor(self.inside - {key}, self.weight - adds, self.token)
        is_there = hold.within is None or (hold.client, hold.within) in self.inside
        if not is_there or self.weight + adds > hold.capacity:
            return None
        token = self.token
        if hold.token is not None and hold.is_exclusive and hold.within is None:
            if hold.token <= token:
                return None
            token = hold.token
        if step.does == "pass":
            return replace(self, token=token)
        return ModelDoor(self.inside | {key}, self.weight + adds, token)


def steps(holds: Iterable[AnsweredGrant]) -> list[ModelStep]:
    """Return the steps of the holds of one name, ordered by their earliest possible time.

    A lease that was not released may end at any time after the lease was last seen. A lease that
    was never seen may end at once, which is the best case for all other holds.
    """
    found = []
    for hold in holds:
        if not isinstance(hold, CertainHold):
            found.append(ModelStep("pass", hold, hold.asked, hold.granted))
            continue
        found.append(ModelStep("enter", hold, hold.asked, hold.granted))
        latest = inf if hold.released is None else hold.released
        found.append(ModelStep("leave", hold, hold.until, latest))
    return sorted(found, key=lambda step: step.earliest)


def settled(todo: Iterable[ModelStep]) -> list[ModelStep]:
    """Return the steps with open ends removed: a step that may happen at any time happens at once.

    That is the best case for all other steps, so the result stays the same, and the search need not
    try every time at which the step may have happened.
    """
    return [replace(step, latest=step.earliest) if step.latest == inf else step for step in todo]


def is_possible(todo: Sequence[ModelStep], *, most: int = 2_000_000) -> bool | None:
    """Return whether one door could have seen these steps; None if the search takes too long."""
    # A position is the number of leading steps that are done, and a bit set of the later steps that
    # are done.
    start = (0, 0, ModelDoor())
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


def _next(todo: Sequence[ModelStep], done: int, later: int) -> list[int]:
    """Return the steps that can come next.

    A step cannot come next if it begins after the latest time of another step that is not yet done.
    """
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


def _may_all_be_left_out(todo: Sequence[ModelStep], done: int, later: int) -> bool:
    return all(
        later >> (number - done) & 1 or todo[number].latest == inf
        for number in range(done, len(todo))
    )
