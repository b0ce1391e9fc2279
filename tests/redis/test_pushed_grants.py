"""A message that a claim was admitted is enough, however late or in what order it comes."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from test_scripts import Scripted, claim

from holdfast._sync.backends.redis import RedisBackend
from holdfast.core.door import WINDOW
from holdfast.core.trust import trusted_until
from holdfast.model import Claim, Grant
from holdfast.scripts import redis_script
from holdfast.testing import ManualClock
from holdfast.wire import verbs
from holdfast.wire.resp import Reply

INBOX = "test:inbox:"


class Shelved(Scripted):
    """The scripts by the test's clock; their messages are kept, to be delivered by the test."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock(self.now)
        self.asked = 0
        self.backend = RedisBackend(
            url="redis://127.0.0.1", location="here", clock=self.clock, namespace="test"
        )
        self.backend._wire = InsteadOfWire(self)  # type: ignore[assignment]

    def prepare(self, *names: str) -> None:
        for verb in names:
            self.patch(verb, b"redis.pcall('PUBLISH',", b"redis.pcall('RPUSH',")

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.clock.advance(seconds)

    def messages(self) -> list[bytes]:
        key = INBOX + self.backend._inbox.name
        found = self.ask("LRANGE", key, 0, -1)
        self.ask("DEL", key)
        return list(found or [])


class InsteadOfWire:
    """Lets the backend's requests run by the test's clock."""

    is_sharded = False

    def __init__(self, store: Shelved) -> None:
        self._store = store

    def ask(self, request: bytes, *, deadline: float) -> Reply:
        [reply] = self.ask_all([request], deadline=deadline)
        return reply

    def ask_all(self, requests: list[bytes], *, deadline: float) -> list[Reply]:
        del deadline
        self._store.asked += len(requests)
        sha = requests[0].split(b"\r\n", 5)[4]
        verb = next(one for one in verbs.VERBS if redis_script(one).sha == sha)
        return self._store.run_all(verb, requests)


class Client:
    """One claim after the other, by the shipped backend and inbox."""

    def __init__(self, store: Shelved, number: int) -> None:
        self.store = store
        self.number = number
        self.made = 0
        self.renew_claim()

    def renew_claim(self) -> None:
        self.made += 1
        self.claim: Claim = claim(1000 * self.number + self.made, client=f"client{self.number}")
        self.waits = False
        self.grant: Grant | None = None
        self.until = 0.0

    def trusts(self, now: float) -> bool:
        return self.grant is not None and now < self.until

    def ask(self) -> bool:
        """Ask, unless a message has granted already; true if that was so."""
        now = self.store.clock.now()
        before = self.store.asked
        answer = self.store.backend.try_acquire(self.claim, deadline=now + 1)
        self.waits = not isinstance(answer, Grant)
        if isinstance(answer, Grant):
            since = now if answer.window is None else answer.window.since
            span = answer.ttl if answer.window is None else answer.window.seconds
            self.grant, self.until = answer, trusted_until(sent_at=since, ttl=span)
        return self.store.asked == before

    def renew(self) -> None:
        assert self.grant is not None
        now = self.store.clock.now()
        [outcome] = self.store.backend.renew([self.grant], deadline=now + 1)
        assert outcome.name == "RENEWED"
        self.until = trusted_until(sent_at=now, ttl=self.grant.ttl)

    def release(self) -> None:
        assert self.grant is not None
        now = self.store.clock.now()
        assert self.store.backend.release(self.grant, deadline=now + 1, tombstone=False)
        self.renew_claim()


@pytest.fixture
def store():
    one = Shelved()
    yield one
    one.close()


class Walk:
    """Clients that ask, hold, freeze and come back, and a shelf of messages on their way."""

    def __init__(self, store: Shelved, chance: random.Random) -> None:
        self.store = store
        self.chance = chance
        self.clients = [Client(store, number) for number in range(1, 5)]
        self.shelf: list[bytes] = []
        self.counts: Counter[str] = Counter()

    def step(self) -> None:
        steps = (self.act, self.deliver, self.let_time_pass)
        self.chance.choices(steps, weights=(6, 5, 2))[0]()
        self.shelf += self.store.messages()

    def act(self) -> None:
        one, now = self.chance.choice(self.clients), self.store.clock.now()
        if one.trusts(now):
            self.chance.choice((one.release, one.release, one.renew))()
        elif one.grant is not None:
            one.renew_claim()  # its time is over: the holder was told
        elif not one.waits or self.chance.random() < 0.8:  # else it is frozen
            self.counts["pushed"] += one.ask() and one.grant is not None

    def deliver(self) -> None:
        if self.shelf:
            message = self.chance.choice(self.shelf)
            if self.chance.random() < 0.7:
                self.shelf.remove(message)
            self.store.backend._inbox._hear(message)

    def let_time_pass(self) -> None:
        self.store.pass_time(self.chance.choice((0.01, 0.1, 0.1, 0.5, 1.0, 2.6, 4.0)))

    def inside(self) -> dict[bytes, float]:
        ends = self.store.ask("ZRANGE", self.store.key("ends"), 0, -1, "WITHSCORES") or []
        found = {one[0]: float(one[1]) for one in ends}
        if solo := self.store.records().get(b"solo"):
            found[solo.split()[0]] = float(solo.split()[1])
        return found

    def check(self) -> None:
        now = self.store.clock.now()
        trusting = [one for one in self.clients if one.trusts(now)]
        self.counts["held"] += len(trusting)
        assert len(trusting) <= 1
        for one in trusting:
            assert self.inside()[one.claim.id.encode()] > now * 1e6


@pytest.mark.parametrize("seed", range(12))
def test_who_trusts_a_message_is_inside(seed: int, store: Shelved) -> None:
    """Whoever trusts one holds the place, and no two of them trust.

    Clients freeze past their windows, are turned away and come back; messages come late,
    twice, and in any order.
    """
    walk = Walk(store, random.Random(seed))  # noqa: S311

    for _ in range(900):
        walk.step()
        walk.check()

    assert walk.counts["held"] > 100
    assert walk.counts["pushed"] > 2


def test_a_message_of_an_earlier_admission_is_not_trusted(store: Shelved) -> None:
    """Admitted, frozen past the window, turned away, back in line: the old ring comes then."""
    holder, waiter = Client(store, 1), Client(store, 2)
    holder.ask()
    waiter.ask()
    holder.release()
    [old] = store.messages()
    store.pass_time(WINDOW + 1)
    holder.ask()
    waiter.ask()

    store.backend._inbox._hear(old)
    waiter.ask()

    assert holder.grant is not None
    assert waiter.grant is None


def test_a_message_is_not_trusted_past_the_window_of_the_last_question(store: Shelved) -> None:
    """Who waited for long asks again: nobody says how old the message is."""
    holder, waiter = Client(store, 1), Client(store, 2)
    holder.ask()
    waiter.ask()
    store.pass_time(WINDOW)
    holder.release()
    [message] = store.messages()

    store.backend._inbox._hear(message)
    was_pushed = waiter.ask()

    assert not was_pushed
    assert waiter.grant is not None
    assert waiter.grant.window is None


@pytest.mark.parametrize(
    "more",
    [{"party": "saga"}, {"lock_delay": 1.0}, {"min_hold": 1.0}],
    ids=lambda one: next(iter(one)),
)
def test_where_more_hangs_on_a_grant_it_is_asked_for(store: Shelved, more: dict[str, Any]) -> None:
    holder, waiter = Client(store, 1), Client(store, 2)
    waiter.claim = claim(7, client="client2", **more)
    holder.ask()
    waiter.ask()
    holder.release()
    [message] = store.messages()

    store.backend._inbox._hear(message)
    was_pushed = waiter.ask()

    assert not was_pushed
    assert waiter.grant is not None
