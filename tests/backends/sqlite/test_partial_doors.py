"""The front of a long line is enough to decide what the whole line would decide."""

from __future__ import annotations

import copy
import random
from pathlib import Path

import pytest

from lockfast.backends.sqlite.database import Database
from lockfast.core.door import Door
from lockfast.model import ALL, Claim, Grant, Inspection
from lockfast.testing import ManualClock

STEPS = 400


class Twins:
    """Runs the same verbs on a file, which is read only in part, and on a whole door in memory."""

    def __init__(self, path: Path, *, capacity: int, chance: random.Random) -> None:
        self.clock = ManualClock()
        self.database = Database(
            path,
            namespace="twins",
            clock=self.clock,
            create=False,
            synchronous="normal",
            tell=lambda _: None,
        )
        self.capacity = capacity
        self.chance = chance
        self.door = Door()
        self.claims: list[Claim] = []

    def step(self) -> None:
        """Apply a verb to the file and to the door, and fail unless the results are alike."""
        self.clock.advance(self.chance.choice([0.0, 0.001, 0.1, 1.0]))
        act = self.chance.choices(
            [self.arrive, self.ask_again, self.release, self.withdraw, self.renew, self.break_],
            [40, 20, 25, 10, 10, 1],
        )[0]
        act()
        mine, other = self.database.inspect("door", deadline=self.soon), self.seen()
        assert [one.owner for one in mine.line] == [one.owner for one in other.line]
        assert [one.token for one in mine.holders] == [one.token for one in other.holders]

    @property
    def soon(self) -> float:
        return self.clock.now() + 5

    @property
    def now(self) -> float:
        return self.database.connection.now()

    def seen(self) -> Inspection:
        door = copy.deepcopy(self.door)  # settling must not change the original
        door.settle(now=self.now)
        return door.inspect("door", now=self.now)

    def some(self) -> Claim | None:
        return self.chance.choice(self.claims) if self.claims else None

    def arrive(self) -> None:
        number = self.chance.getrandbits(128)
        weights = [1, 1, 1, self.capacity] if self.capacity != ALL else [1, 1, ALL]
        one = Claim(
            f"{number:032x}",
            "door",
            f"client {self.chance.randrange(3)}",
            f"owner {number}",
            self.chance.choice(weights),
            self.capacity,
            self.chance.choice([2.0, 30.0]),
            self.chance.choice([None, None, None, "saga"]),
        )
        self.claims.append(one)
        self.ask(one)

    def ask_again(self) -> None:
        one = self.some()
        if one is not None:
            self.ask(one)

    def ask(self, one: Claim) -> None:
        self.database.connection.open(self.soon)
        mine = self.database._ask(one, self.soon)
        if isinstance(mine, Grant):
            self.database.stop_waiting(one)
        other = self.door.arrive(one, now=self.now)
        assert type(mine) is type(other)
        assert getattr(mine, "token", None) == getattr(other, "token", None)
        assert getattr(mine, "place", None) == getattr(other, "place", None)

    def release(self) -> None:
        for one in self.claims:
            place = self.door.find(one.id)
            if place is not None and place.state == 0:
                grant = Grant(one, place.token, one.ttl)
                mine = self.database.release(grant, deadline=self.soon, tombstone=False)
                assert mine == self.door.release(one.id, now=self.now)
                return

    def withdraw(self) -> None:
        one = self.some()
        if one is not None:
            self.database.withdraw(one, deadline=self.soon, tombstone=False)
            self.door.withdraw(one, now=self.now)
            self.claims.remove(one)

    def renew(self) -> None:
        one = self.some()
        if one is not None:
            [mine] = self.database.renew([Grant(one, 1, one.ttl)], deadline=self.soon)
            assert mine == self.door.renew(one.id, now=self.now, ttl=one.ttl)

    def break_(self) -> None:
        mine = self.database.break_("door", token=None, owner=None, deadline=self.soon)
        other = self.door.break_(now=self.now)
        assert [one.token for one in mine] == [one.token for one in other]


@pytest.mark.parametrize("capacity", [1, 3, ALL])
def test_what_little_is_read_decides_as_the_whole_line_would(path, capacity):
    """The holders and the front of the line are enough, whatever is behind them."""
    twins = Twins(path, capacity=capacity, chance=random.Random(capacity))  # noqa: S311 - repeatable

    for _ in range(STEPS):
        twins.step()

    twins.database.close()
