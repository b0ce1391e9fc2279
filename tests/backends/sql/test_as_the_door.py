"""The steps do to rows what the door does to entries, however little of a line they read."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import TypeVar

import pytest
from backends.sql.stores import OneTable, Store, TwoTables
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
)

from lockfast.backends.sql.door_rows import Arrival, Arrived, Outcome, Passage, Withdrawal, row_of
from lockfast.backends.sql.steps import Steps
from lockfast.backends.sql.verbs import Decided
from lockfast.core.door import Door
from lockfast.errors import ConfigurationError
from lockfast.model import ALL, Claim

T = TypeVar("T")

CLIENTS = ("ann", "bob", "cyd", "")

# What the client believes about a claim's place: the right place, no place, or a wrong place.
BELIEFS = st.sampled_from(["right", "right", "none", "wrong"])


class StepsMachine(RuleBasedStateMachine):
    """Runs the same verbs on a store, which is read only in part, and on a door known in full."""

    made: Callable[[], Store]
    claims = Bundle("claims")

    @initialize(
        target=claims,
        capacity=st.sampled_from([1, 3, ALL]),
        size=st.integers(0, 12),
        party=st.sampled_from([None, "saga"]),
    )
    def open(self, capacity: int, size: int, party: str | None) -> MultipleResults[Claim]:
        """Let one claim take the whole capacity, and let some other claims wait."""
        self.store = self.made()
        self.door = Door()
        self.capacity = capacity
        self.number = 0
        holder = self._claim(CLIENTS[0], party=None, weight=capacity)
        line = [
            self._claim(CLIENTS[number % 4], party=party if number in (0, 6) else None)
            for number in range(size)
        ]
        for one in (holder, *line):
            self.arrive(one, "none")
        return multiple(holder, *line)

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()

    # -- arrivals ----------------------------------------------------------------------

    @rule(
        target=claims,
        size=st.integers(1, 12),
        clients=st.sampled_from([CLIENTS, CLIENTS[:1]]),
        party=st.sampled_from([None, None, None, "saga"]),
    )
    def come_together(
        self, size: int, clients: tuple[str, ...], party: str | None
    ) -> MultipleResults[Claim]:
        """Let many claims come, so that the line is long."""
        crowd = [self._claim(clients[number % len(clients)], party=party) for number in range(size)]
        for one in crowd:
            self.arrive(one, "none")
        return multiple(*crowd)

    @rule(
        target=claims,
        client=st.sampled_from(CLIENTS),
        party=st.sampled_from([None, None, "saga", "other saga"]),
        is_large=st.booleans(),
        ttl=st.sampled_from([2.0, 30.0]),
        delay=st.sampled_from([0.0, 0.0, 1.0, 90.0]),
        queues=st.booleans(),
        is_stranger=st.sampled_from([False] * 9 + [True]),
    )
    def come(
        self,
        client: str,
        party: str | None,
        ttl: float,
        delay: float,
        *,
        is_large: bool,
        queues: bool,
        is_stranger: bool,
    ) -> Claim:
        claim = self._claim(
            client,
            party=party,
            weight=self.capacity if is_large else 1,
            capacity=self.capacity + is_stranger if self.capacity != ALL else ALL,
            ttl=ttl,
            delay=delay,
            queues=queues,
        )
        self.arrive(claim, "none")
        return claim

    def _claim(
        self,
        client: str,
        *,
        party: str | None,
        weight: int = 1,
        capacity: int | None = None,
        ttl: float = 30.0,
        delay: float = 0.0,
        queues: bool = True,
    ) -> Claim:
        self.number += 1
        claim_id, capacity = f"{self.number}", capacity or self.capacity
        return Claim(
            claim_id, "door", client, "", weight, capacity, ttl, party, delay, delay, queues
        )

    # -- the verbs ---------------------------------------------------------------------

    @rule(claim=claims, belief=BELIEFS)
    def arrive(self, claim: Claim, belief: str) -> None:
        bell = f"bell {claim.id}" if claim.queues else ""
        self.both(
            self._arrive(claim, bell, self.believed(claim, belief)),
            lambda door: door.arrive(claim, now=self.store.now, bell=bell),
        )

    def _arrive(self, claim: Claim, bell: str, arrived: int | None) -> Steps[Decided[object]]:
        answer, door = yield from self.store.verbs.arrive(claim, bell=bell, arrived=arrived)
        return Decided(answer, door.woken)

    @rule(
        some=st.lists(claims, min_size=2, max_size=12, unique_by=lambda one: one.id),
        belief=BELIEFS,
        leaving=st.sets(st.integers(0, 11)),
        tombstone=st.booleans(),
    )
    def go_together(
        self, some: list[Claim], belief: str, leaving: set[int], *, tombstone: bool
    ) -> None:
        """Let several claims arrive or withdraw in a single transaction."""
        passages: list[Passage] = [
            Withdrawal(one, self.believed(one, belief), tombstone)
            if number in leaving
            else Arrival(one, f"bell {one.id}" if one.queues else "", self.believed(one, belief))
            for number, one in enumerate(some)
        ]

        def outcomes(door: Door) -> list[object]:
            return [one_by_one(door, one, now=self.store.now) for one in passages]

        self.both(self._go_together(passages), outcomes)

    def _go_together(self, passages: list[Passage]) -> Steps[Decided[object]]:
        found, woken = yield from self.store.verbs.together(passages)
        return Decided([told(one) for one in found], woken)

    @rule(claim=claims, belief=BELIEFS)
    def look(self, claim: Claim, belief: str) -> None:
        """Ask without a transaction; the reply, if any, must be the one that `arrive` would get."""
        arrived = self.believed(claim, belief) or 0
        seen: Arrived | None = self.store.run(
            self.store.verbs.still_waiting(claim, arrived=arrived)
        )

        if seen is not None:
            assert seen.answer == copied(self.door).arrive(claim, now=self.store.now)

    @rule(some=st.lists(claims, min_size=1, max_size=3))
    def renew(self, some: list[Claim]) -> None:
        self.both(
            self.store.verbs.renew(some),
            lambda door: [door.renew(one.id, now=self.store.now, ttl=one.ttl) for one in some],
        )

    @rule(claim=claims)
    def hand_over(self, claim: Claim) -> None:
        self.both(
            self.store.verbs.hand_over(claim),
            lambda door: door.hand_over(claim, now=self.store.now),
        )

    @rule(tombstone=st.booleans(), which=st.integers(0, 2))
    def release(self, which: int, *, tombstone: bool) -> None:
        """Release one of the claims inside."""
        claim = self.door.places[which].claim if which < len(self.door.places) else None
        if claim is not None:
            self.both(
                self.store.verbs.release(claim, tombstone=tombstone),
                lambda door: door.release(claim.id, now=self.store.now, tombstone=tombstone),
            )

    @rule(claim=claims, belief=BELIEFS, tombstone=st.booleans())
    def withdraw(self, claim: Claim, belief: str, *, tombstone: bool) -> None:
        arrived = self.believed(claim, belief)
        self.both(
            self.store.verbs.withdraw(claim, arrived=arrived, tombstone=tombstone),
            lambda door: door.withdraw(claim, now=self.store.now, tombstone=tombstone),
        )

    @rule(party=st.sampled_from([None, None, "saga"]))
    def break_(self, party: str | None) -> None:
        self.both(
            self.store.verbs.break_("door", party=party),
            lambda door: door.break_(now=self.store.now, party=party),
        )

    @rule(clients=st.lists(st.sampled_from(CLIENTS[:3]), min_size=1, max_size=2, unique=True))
    def forget(self, clients: list[str]) -> None:
        self.both(
            self.store.verbs.forget(clients),
            lambda door: self._forget(door, clients),
        )

    def _forget(self, door: Door, clients: list[str]) -> None:
        # The store leaves a name alone if these clients have no claim at it.
        if any(place.claim.client in clients for place in door.places):
            door.forget(clients, now=self.store.now)

    @rule(seconds=st.sampled_from([0.001, 0.5, 2.0, 2.5, 31.0]))
    def pass_(self, seconds: float) -> None:
        self.store.now += seconds

    # -- comparing both ----------------------------------------------------------------

    def both(self, steps: Steps[Decided[T]], act: Callable[[Door], object]) -> None:
        """Run a verb on the store and on the door; both must give the same reply and wakeups."""
        door = copied(self.door)
        try:
            expected = act(door)
        except ConfigurationError as refused:
            with pytest.raises(ConfigurationError, match=re.escape(str(refused))):
                self.store.run(steps)
            return
        answer, woken = self.store.run(steps)
        assert answer == expected
        assert [one.claim.id for one in woken] == [one.claim.id for one in door.woken]
        self.door = copied(door)

    def believed(self, claim: Claim, belief: str) -> int | None:
        """Return the place at which the client believes the claim to be."""
        if belief == "none":
            return None
        stands = [row[0] for row in self.store.places("door") if row[1] == claim.id]
        return stands[-1] if belief == "right" and stands else 3

    @invariant()
    def the_rows_are_the_places(self) -> None:
        if hasattr(self, "store"):
            # Compare all columns but the arrival numbers, which only order the claims.
            assert [row[1:] for row in self.store.places("door")] == [
                row_of(b"", place, self.door)[2:15] for place in self.door.places
            ]
            assert self.store.record("door") in ((self.door.capacity, self.door.token), (0, 0))
            self.store.check("door")

    @invariant()
    def looking_shows_the_whole_line(self) -> None:
        if hasattr(self, "store"):
            door = copied(self.door)  # looking changes nothing
            door.settle(now=self.store.now)
            expected = door.inspect("door", now=self.store.now)
            seen = self.store.run(self.store.verbs.inspect("door"))
            assert (seen.line, seen.holders) == (expected.line, expected.holders)


def copied(door: Door) -> Door:
    """Return a copy of the door that a verb can change without changing the original."""
    places = [copy.copy(place) for place in door.places]
    return Door(capacity=door.capacity, token=door.token, places=places)


def one_by_one(door: Door, passage: Passage, *, now: float) -> object:
    """Return the door's reply to one of several passages."""
    if isinstance(passage, Withdrawal):
        door.withdraw(passage.claim, now=now, tombstone=passage.tombstone)
        return None
    try:
        return door.arrive(passage.claim, now=now, bell=passage.bell)
    except ConfigurationError as refused:
        return str(refused)


def told(outcome: Outcome) -> object:
    """Convert an outcome of the steps to the form that `one_by_one` returns."""
    if isinstance(outcome, Arrived):
        return outcome.answer
    return None if outcome is None else str(outcome)


class OneTableMachine(StepsMachine):
    """The comparison with the table layout of the embedded file."""

    made = OneTable


class TwoTablesMachine(StepsMachine):
    """The comparison with the table layout of a server."""

    made = TwoTables


HISTORIES = settings(max_examples=30, stateful_step_count=30, deadline=None)

TestOneTable = OneTableMachine.TestCase
TestOneTable.settings = HISTORIES
TestTwoTables = TwoTablesMachine.TestCase
TestTwoTables.settings = HISTORIES


@pytest.mark.parametrize("machine", [OneTableMachine, TwoTablesMachine])
def test_a_refused_claim_changes_nothing(machine) -> None:
    """A refused claim does not even end an expired hold, as its transaction is rolled back."""
    both = machine()
    both.open(capacity=1, size=1, party=None)
    both.pass_(31.0)

    both.come("ann", None, 2.0, 0.0, is_large=False, queues=False, is_stranger=True)

    both.the_rows_are_the_places()
    both.teardown()
