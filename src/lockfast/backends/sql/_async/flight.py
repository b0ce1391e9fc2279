"""One statement under way for several, and each of those who wait for it."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from lockfast.backends.sql import refusals
from lockfast.backends.sql.turns import Turn
from lockfast.runtime import aio as runtime

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.errors import LockError
    from lockfast.model import Claim

ENOUGH = 1_000
"""How many things to do a flight takes at most."""

LAST_WORD = 1.0
"""So much longer than a flight that has no more time than oneself one waits for it: why it failed
says more than that the time is up."""


class Errand(Protocol):
    """One thing to do for a claim."""

    @property
    def claim(self) -> Claim:
        """For whom."""
        ...

    @property
    def apart(self) -> str:
        """No two errands of one flight have the same."""
        ...


E = TypeVar("E", bound=Errand)
A = TypeVar("A")


class Member(Generic[E, A]):
    """One who asks, and what is known of the answer; no two of its errands are `apart` alike."""

    __slots__ = (
        "__weakref__",
        "_answers",
        "_error",
        "deadline",
        "deeds",
        "has_left",
        "is_told",
        "is_under_way",
        "must_go_alone",
        "patience",
        "since",
        "turn",
        "was_turned_back",
        "woken",
    )

    def __init__(
        self,
        deeds: Sequence[E],
        deadline: float,
        *,
        since: float = 0.0,
        turn: Turn | None = None,
    ) -> None:
        self.deeds = deeds
        self.deadline = deadline
        self.patience = deadline
        """Until when it waits, once it is under way."""
        self.since = since
        """When it came into the queue."""
        self.turn = turn or Turn()
        self.woken = runtime.Event()
        self.is_under_way = False
        self.is_told = False
        self.has_left = False
        self.must_go_alone = False
        self.was_turned_back = False
        self._answers: list[A] = []
        self._error: Exception | None = None

    @property
    def waits(self) -> bool:
        """Whether it stands in the queue."""
        return not (self.is_under_way or self.is_told or self.has_left)

    def begin(self, deadline: float) -> None:
        """Be under way with a flight that has until this deadline."""
        self.is_under_way = True
        if deadline <= self.deadline:
            self.patience = self.deadline + LAST_WORD

    def turn_back(self, *, alone: bool) -> None:
        """Stand in the queue again: nothing was done; `alone` if the next flight is its own."""
        self.must_go_alone = alone
        self.was_turned_back = True
        self.is_under_way = False
        self.patience = self.deadline
        self.woken.set()

    def tell(self, answers: list[A], turn: Turn) -> None:
        """Say what was done, and when it was asked for."""
        self._answers = answers
        self.turn.came_at = turn.came_at
        self._end()

    def fail(self, error: Exception) -> None:
        """Say why it is not known, or was not done."""
        self._error = error
        self._end()

    def _end(self) -> None:
        self.is_told = True
        self.woken.set()

    def given_up(self, *, where: str) -> LockError:
        """Leave, and return what can be said of it now."""
        self.has_left = True
        if self.is_under_way:
            return refusals.unanswered("no answer in time", where=where)
        return refusals.no_time(where=where)

    def answer(self) -> list[A]:
        """Return the answer to each of its errands, or raise."""
        if self._error is None:
            return self._answers
        # One object that is raised in many places would carry the tracebacks of all.
        raise copy.copy(self._error) from self._error.__cause__


class Flight(Generic[E, A]):
    """Kept by the frames of whoever carries it: when they are gone, it is over."""

    __slots__ = (
        "__weakref__",
        "deadline",
        "is_over",
        "is_plain",
        "members",
        "name",
        "since",
        "turn",
        "where",
    )

    def __init__(
        self, name: str | None, *, since: float, where: str, turn: Turn | None = None
    ) -> None:
        self.is_over = False
        self.is_plain = True
        self.turn = turn or Turn()
        self.members: list[Member[E, A]] = []
        self.where = where
        self.since = since
        self.deadline = since
        self.name = name
        """For whose name it goes, if it may wait for somebody who has locked that."""

    def board(
        self, carrier: Member[E, A], waiting: Sequence[Member[E, A]], *, enough: int = ENOUGH
    ) -> None:
        """Take the carrier, and those of the queue who can go with it.

        A thread that carries the others cannot leave before they have their answer, so it is the
        carrier's deadline that counts. Who would lose more than half of its time by that waits
        for the next; so does one whose errand has to be kept apart from one that goes already.
        """
        self.deadline = carrier.deadline
        self.is_plain = carrier.must_go_alone
        self.name = carrier.deeds[0].claim.name if self.is_plain else None
        names, count = set[str](), 0
        latest = self._ends_for(carrier) + (self._ends_for(carrier) - self.since)
        for one in (carrier, *waiting):
            wanted = {deed.apart for deed in one.deeds}
            goes = one.waits and names.isdisjoint(wanted)
            if one is not carrier:
                in_time = self.since < self._ends_for(one) <= latest
                goes = goes and in_time and not (self.is_plain or one.must_go_alone)
            if goes:
                names |= wanted
                count += len(wanted)
                self.members.append(one)
                one.begin(self.deadline)
            if count >= enough:
                break

    def _ends_for(self, one: Member[E, A]) -> float:
        """Return when a request that is sent for it now ends."""
        return Turn(self.turn.patience).come(self.since, deadline=one.deadline)

    @property
    def deeds(self) -> list[E]:
        """What all of them want."""
        return [deed for one in self.members for deed in one.deeds]

    def tell(self, answers: Sequence[A]) -> None:
        """Tell each what was done, of all the errands in their order."""
        begin = 0
        for one in self.members:
            end = begin + len(one.deeds)
            one.tell(list(answers[begin:end]), self.turn)
            begin = end

    def fail(self, error: Exception) -> None:
        """Tell all of them why it failed."""
        for one in self.members:
            one.fail(error)

    def end(self) -> None:
        """Be over; who has not been told yet is told that it may have been done or not."""
        self.is_over = True
        left = [one for one in self.members if one.is_under_way and not one.is_told]
        if left:
            ended = "whoever asked for several at once was interrupted"
            error = refusals.unanswered(ended, where=self.where)
            for one in left:
                one.fail(error)
        self.members = []  # an error that one of them has knows the frames which keep this

    def __del__(self) -> None:
        # `members` is not there where an interrupt struck its making.
        if getattr(self, "members", None):
            self.end()
