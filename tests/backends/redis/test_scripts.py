"""The scripts do what `core.door` says, step by step."""

from __future__ import annotations

import random
import re
from collections import Counter

import pytest
from backends.redis.scripted import Scripted, claim

from lockfast.backends.redis import replies, requests
from lockfast.backends.redis.scripts import redis_script
from lockfast.core.door import ADMISSION_WINDOW_SECONDS, TOMBSTONE_SECONDS, Door
from lockfast.errors import ConfigurationError
from lockfast.model import ALL, Claim, Grant, Held, Renewal
from lockfast.options import LONGEST_TTL


def test_the_scripts_have_the_times_of_the_door() -> None:
    """The Lua scripts and the Python door use the same value for each constant."""
    source = redis_script("acquire").source.decode()

    assert (
        f"WINDOW, TOMBSTONE = {ADMISSION_WINDOW_SECONDS * 1e6:.0f}, {TOMBSTONE_SECONDS * 1e6:.0f}"
        in source
    )
    assert f"STEPS, SHOWN = {replies.HOLDERS_SHOWN}, {replies.HOLDERS_SHOWN}" in source
    assert f"LONGEST = {LONGEST_TTL * 1e6:.0f}" in source


def test_the_straight_ways_have_the_times_of_the_long_one() -> None:
    """The fast paths run before the constants are defined, so they repeat the values."""
    acquire, release = (redis_script(verb).source.decode() for verb in ("acquire", "release"))
    times = dict(re.findall(r"(PATIENCE|GLANCE|DAY)\b[^=]* = (\d+)", acquire))
    day = f") / 1000) + {times['DAY']} <= tonumber("

    assert acquire.count(f"left <= {times['GLANCE']}\n") == 1
    assert release.count(f"math.abs(now - heard) <= {times['PATIENCE']}\n") == 1
    assert release.count(f"now + {ADMISSION_WINDOW_SECONDS * 1e6:.0f})") == 2
    assert (acquire.count(day), release.count(day)) == (1, 1)


KINDS = {
    "mutex": {"capacity": 1, "weights": (1,)},
    "plain": {"capacity": 1, "weights": (1,), "is_plain": True},  # mostly on the fast paths
    "semaphore": {"capacity": 4, "weights": (1, 1, 2, 4)},
    "rwlock": {"capacity": ALL, "weights": (1, 1, 1, ALL)},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(12))
def test_the_scripts_answer_as_the_door_does(kind: str, seed: int, scripted: Scripted) -> None:
    """The scripts and the door give the same replies and tokens for any sequence of verbs."""
    chance = random.Random(f"{kind} {seed}")  # noqa: S311
    walk = Walk(scripted, chance, **KINDS[kind])

    for _ in range(250):
        walk.step()

    assert walk.counts["Grant"] > 5
    assert walk.counts["Held"] > 5


@pytest.mark.parametrize("verb", ["renew", "release"])
def test_a_lone_hold_whose_time_is_over_is_neither_renewed_nor_released(
    verb: str, scripted: Scripted
) -> None:
    """Nobody has asked since, so its record is still there when the late request comes."""
    late, successor = claim(1, ttl=5.0), claim(2, client="other", ttl=5.0)
    scripted.arrive(late)
    scripted.now += 5.0

    if verb == "renew":
        assert scripted.renew(late) is Renewal.LOST
    else:
        assert not scripted.release(late, tombstone=False)

    assert isinstance(scripted.arrive(successor), Grant)


class Walk:
    """Takes the same random steps on a door and on the scripts."""

    def __init__(
        self,
        scripted: Scripted,
        chance: random.Random,
        *,
        capacity: int,
        weights: tuple[int, ...],
        is_plain: bool = False,
    ) -> None:
        self.scripted = scripted
        self.is_plain = is_plain
        self.chance = chance
        self.capacity = capacity
        self.weights = weights
        self.door = Door()
        self.claims: list[Claim] = []
        self.counts: Counter[str] = Counter()

    def step(self) -> None:
        verbs_of_a_door = (self.come, self.come, self.come_again, self.renew, self.release)
        rarer = (self.release, self.withdraw, self.let_time_pass, self.let_time_pass, self.break_)
        self.chance.choices((*verbs_of_a_door, *rarer), weights=(6, 6, 8, 4, 6, 6, 3, 6, 6, 1))[0]()
        self.check_sums()

    def some_claim(self) -> Claim:
        if not self.claims:
            self.claims.append(self.new_claim())
        if self.is_plain and self.door.places and self.chance.random() < 0.6:
            return self.door.places[0].claim  # often the holder, so that turns pass on
        return self.chance.choice(self.claims[-12:])

    def new_claim(self) -> Claim:
        chance = self.chance
        if self.is_plain:
            # Choose from enough clients that only a few of them are in line twice.
            return claim(
                len(self.claims), client=f"client{chance.randrange(9)}", ttl=chance.choice((5, 20))
            )
        party = chance.choice((None, None, None, "saga", "other"))
        return claim(
            len(self.claims),
            client=chance.choice(("one", "two", "three")),
            capacity=self.capacity if chance.random() < 0.97 else self.capacity + 1,
            weight=self.weights[0] if party else chance.choice(self.weights),
            ttl=chance.choice((1.0, 5.0, 20.0)),
            party=party,
            lock_delay=0.0 if party else chance.choice((0.0, 0.0, 3.0)),
            min_hold=chance.choice((0.0, 0.0, 2.0)),
            queues=chance.random() < 0.8,
        )

    def come(self) -> None:
        self.claims.append(self.new_claim())
        self.arrive(self.claims[-1])

    def come_again(self) -> None:
        self.arrive(self.some_claim())

    def arrive(self, one: Claim) -> None:
        try:
            expected = self.door.arrive(one, now=self.scripted.now)
        except ConfigurationError:
            expected = f"capacity {self.door.capacity}"

        answer = self.scripted.arrive(one)

        self.counts[type(expected).__name__] += 1
        assert self.simple(answer) == self.simple(expected)

    def simple(self, answer: Grant | Held | str) -> object:
        """Return the part of a reply on which the scripts and the door must agree.

        The time to ask again is a hint, and differs between stores. A place in line may include
        claims that are gone but not yet removed.
        """
        if not isinstance(answer, Held):
            return answer
        holders = sorted((one.token, one.weight, round(one.age, 5)) for one in answer.holders)
        return holders, answer.place is None

    def renew(self) -> None:
        one = self.some_claim()
        expected = self.door.renew(one.id, now=self.scripted.now, ttl=one.ttl)
        assert self.scripted.renew(one) is expected

    def release(self) -> None:
        often = 0.01 if self.is_plain else 0.3
        one, tombstone = self.some_claim(), self.chance.random() < often
        expected = self.door.release(one.id, now=self.scripted.now, tombstone=tombstone)
        assert self.scripted.release(one, tombstone=tombstone) is expected

    def withdraw(self) -> None:
        one, tombstone = self.some_claim(), self.chance.random() < 0.5
        self.door.withdraw(one, now=self.scripted.now, tombstone=tombstone)
        self.scripted.withdraw(one, tombstone=tombstone)

    def break_(self) -> None:
        expected = self.door.break_(now=self.scripted.now)
        assert self.scripted.break_() == sorted(one.token or 0 for one in expected)

    def let_time_pass(self) -> None:
        self.scripted.now += self.chance.choice((0.25, 0.5, 1.0, 2.5, 7.0, 30.0, 90.0))

    def check_sums(self) -> None:
        """Check that every count that the scripts keep matches the stored entries."""
        records = self.scripted.records()
        if not records:
            return
        self.check_ends(records)
        if b"solo" in records:
            # With a single hold there is nothing else to count.
            assert not self.scripted.ask(
                "EXISTS", *(self.scripted.key(k) for k in ("ends", "line"))
            )
            assert int(records.get(b"used", 0)) == 0
            return
        claims = {key[1:]: one for key, one in records.items() if key[:1] == b"#"}
        inside = set(self.scripted.ask("ZRANGE", self.scripted.key("ends"), 0, -1))
        line = set(self.scripted.ask("ZRANGE", self.scripted.key("line"), 0, -1))
        gone = set(self.scripted.ask("ZRANGE", self.scripted.key("gone"), 0, -1))
        standings = {key: one[:1] for key, one in claims.items()}
        assert inside == {key for key, one in standings.items() if one in b"HAC"}
        assert line == {key for key, one in standings.items() if one == b"W"}
        assert gone == {key for key, one in standings.items() if one in b"GB"}
        waiting = Counter(claims[one].split()[8] for one in line)
        clients = {key[1:]: int(one.split()[2]) for key, one in records.items() if key[:1] == b"@"}
        assert clients == waiting
        assert int(records.get(b"arrivals", 0)) >= len(line)
        weights: Counter[object] = Counter()
        for one in inside:
            fields = claims[one].split()
            party = one if fields[7] == b"-" or fields[0] == b"C" else fields[7]
            weights[party] = max(weights[party], int(fields[3]))
        assert int(records.get(b"used", 0)) == sum(weights.values())
        assert (b"gone" in records) == bool(gone)

    def check_ends(self, records: dict[bytes, bytes]) -> None:
        """Check that all keys of a name expire together; leftover keys would fill the store."""
        keys = [self.scripted.key(one) for one in requests.DOOR_KEYS]
        ends = {self.scripted.ask("PEXPIRETIME", one) for one in keys} - {-2}
        assert ends == {int(records[b"keep"])}
