"""A wakeup message grants a claim safely, however late or out of order it arrives."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from backends.redis.scripted import NAME, Scripted, claim

from lockfast.backends.redis import requests
from lockfast.backends.redis._sync.backend import RedisBackend
from lockfast.backends.redis.resp import Reply
from lockfast.backends.redis.scripts import redis_script
from lockfast.core.door import ADMISSION_WINDOW_SECONDS
from lockfast.core.renewal import trusted_until
from lockfast.errors import OutcomeUnknown
from lockfast.model import Claim, Grant
from lockfast.testing import ManualClock

INBOX = "test:inbox:"


class Shelved(Scripted):
    """Runs the scripts by the test's clock, and stores their messages for the test to deliver."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock(self.now)
        self.asked = 0
        self.backend = RedisBackend(
            url="redis://127.0.0.1", location="here", clock=self.clock, namespace="test"
        )
        self.backend._transport = InsteadOfWire(self)  # type: ignore[assignment]

    def prepare(self, *names: str) -> None:
        for verb in names:
            self.patch(verb, b"redis.pcall('PUBLISH',", b"redis.pcall('RPUSH',")

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.clock.advance(seconds)

    def messages(self) -> list[bytes]:
        key = INBOX + self.backend._inbox.channel
        found = self.ask("LRANGE", key, 0, -1)
        self.ask("DEL", key)
        return list(found or [])


def deliver(store: Shelved, message: bytes) -> None:
    store.backend._waiting.deliver(message, store.backend._inbox)


class InsteadOfWire:
    """A transport that runs the backend's requests by the test's clock."""

    is_sharded = False

    def __init__(self, store: Shelved) -> None:
        self._store = store
        self.is_cut = False

    def ask(self, request: bytes, *, deadline: float) -> Reply:
        [reply] = self.send_all([request], deadline=deadline)
        return reply

    def send_all(self, asked: list[bytes], *, deadline: float) -> list[Reply]:
        del deadline
        if self.is_cut:
            raise OutcomeUnknown("cut")
        self._store.asked += len(asked)
        sha = asked[0].split(b"\r\n", 5)[4]
        verb = next(one for one in requests.SCRIPT_VERBS if redis_script(one).sha == sha)
        return self._store.run_all(verb, asked)


class Waiter:
    """Makes one claim after another, through the real backend and inbox."""

    def __init__(self, store: Shelved, number: int, *, client: str = "") -> None:
        self.store = store
        self.number = number
        self.client = client or f"client{number}"
        self.made = 0
        self.renew_claim()

    def renew_claim(self) -> None:
        self.made += 1
        self.claim: Claim = claim(1000 * self.number + self.made, client=self.client)
        self.waits = False
        self.answered_at = -1
        self.grant: Grant | None = None
        self.until = 0.0

    def trusts(self, now: float) -> bool:
        return self.grant is not None and now < self.until

    def ask(self) -> bool:
        """Try to acquire; return whether a message had already granted the claim."""
        now = self.store.clock.now()
        before = self.store.asked
        answer = self.store.backend.try_acquire(self.claim, deadline=now + 1)
        self.waits = not isinstance(answer, Grant)
        is_pushed = self.store.asked == before
        if not is_pushed:
            self.answered_at = self.store.asked
        if isinstance(answer, Grant):
            since = now if answer.window is None else answer.window.since
            span = answer.ttl if answer.window is None else answer.window.seconds
            self.grant, self.until = answer, trusted_until(sent_at=since, ttl=span)
        return is_pushed

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
    """A random walk of claims that ask, hold, freeze and return, with undelivered messages.

    The claims belong to two clients, so that a client still waits with one claim when another is
    gone.
    """

    def __init__(self, store: Shelved, chance: random.Random) -> None:
        self.store = store
        self.chance = chance
        self.waiters = [Waiter(store, n, client=f"client{n % 2}") for n in range(1, 7)]
        self.shelf: list[bytes] = []
        self.broken: dict[int | None, int] = {}
        self.counts: Counter[str] = Counter()

    def step(self) -> None:
        steps = (self.act, self.deliver, self.let_time_pass, self.break_)
        self.chance.choices(steps, weights=(60, 50, 20, 5))[0]()
        self.shelf += self.store.messages()

    def act(self) -> None:
        one, now = self.chance.choice(self.waiters), self.store.clock.now()
        if one.trusts(now):
            self.chance.choice((one.release, one.release, one.renew))()
        elif one.grant is not None:
            one.renew_claim()  # the lease is over, and its holder was notified
        elif not one.waits or self.chance.random() < 0.8:  # otherwise the client is frozen
            self.ask(one)

    def ask(self, one: Waiter) -> None:
        if not one.ask() or one.grant is None:
            return
        self.counts["pushed"] += 1
        if one.grant.token in self.broken:
            # Law 2: a holder whose hold was broken may act until its next request. A claim that was
            # answered after the break must not be trusted any more.
            assert one.answered_at <= self.broken[one.grant.token]
            one.renew_claim()

    def deliver(self) -> None:
        if self.shelf:
            message = self.chance.choice(self.shelf)
            if self.chance.random() < 0.7:
                self.shelf.remove(message)
            deliver(self.store, message)

    def let_time_pass(self) -> None:
        self.store.pass_time(self.chance.choice((0.01, 0.1, 0.1, 0.5, 1.0, 2.6, 4.0)))

    def break_(self) -> None:
        now = self.store.clock.now()
        for holder in self.store.backend.break_(NAME, deadline=now + 1):
            self.broken[holder.token] = self.store.asked
        for one in self.waiters:
            if one.grant is not None and one.grant.token in self.broken:
                one.renew_claim()

    def inside(self) -> dict[bytes, float]:
        ends = self.store.ask("ZRANGE", self.store.key("ends"), 0, -1, "WITHSCORES") or []
        found = {one[0]: float(one[1]) for one in ends}
        if solo := self.store.records().get(b"solo"):
            found[solo.split()[0]] = float(solo.split()[1])
        return found

    def check(self) -> None:
        now = self.store.clock.now()
        trusting = [one for one in self.waiters if one.trusts(now)]
        self.counts["held"] += len(trusting)
        assert len(trusting) <= 1
        for one in trusting:
            assert self.inside()[one.claim.id.encode()] > now * 1e6


@pytest.mark.parametrize("seed", range(12))
def test_who_trusts_a_message_is_inside(seed: int, store: Shelved) -> None:
    """A claim that trusts a message is inside, and no two claims trust at the same time.

    Clients freeze past their windows, are turned away and come back; operators break holds and
    admitted claims; messages arrive late, twice, and in any order.
    """
    walk = Walk(store, random.Random(seed))  # noqa: S311

    for _ in range(900):
        walk.step()
        walk.check()

    assert walk.counts["held"] > 100
    assert walk.counts["pushed"] > 2


def test_a_message_of_an_earlier_admission_is_not_trusted(store: Shelved) -> None:
    """A waiter that lost its turn and rejoined the line does not trust the old wakeup."""
    holder, waiter = Waiter(store, 1), Waiter(store, 2)
    holder.ask()
    waiter.ask()
    holder.release()
    [old] = store.messages()
    store.pass_time(ADMISSION_WINDOW_SECONDS + 1)
    holder.ask()
    waiter.ask()

    deliver(store, old)
    waiter.ask()

    assert holder.grant is not None
    assert waiter.grant is None


def test_a_message_of_an_admission_that_was_broken_is_not_trusted(store: Shelved) -> None:
    """A claim that was broken and has rejoined the line does not trust its old wakeup."""
    holder, *waiters = (Waiter(store, n, client="one") for n in range(1, 5))
    for one in (holder, *waiters):
        one.ask()
    holder.release()
    [old] = store.messages()
    store.backend.break_(NAME, deadline=store.clock.now() + 1)
    waiters[0].ask()

    deliver(store, old)
    waiters[0].ask()

    assert waiters[0].grant is None


def pushed(store: Shelved, *, after: float, **options: Any) -> Waiter:
    """Return a waiter that is notified of its admission `after` seconds into its wait."""
    holder, waiter = Waiter(store, 1), Waiter(store, 2)
    waiter.claim = claim(7, client="client2", **options)
    holder.ask()
    waiter.ask()
    store.pass_time(after)
    holder.release()
    [message] = store.messages()
    deliver(store, message)
    return waiter


@pytest.mark.parametrize("ttl", [10.0, 1.0], ids="ttl {}".format)
@pytest.mark.parametrize("part", [0.55, 0.95, 1.05], ids="{} of it".format)
def test_a_message_near_the_end_of_its_window_is_asked_about(
    store: Shelved, ttl: float, part: float
) -> None:
    """The waiter asks the server when too little time is left for the first renewal.

    A message is valid for one window, or for the ttl if the ttl is shorter.
    """
    waiter = pushed(store, after=part * min(ttl, ADMISSION_WINDOW_SECONDS), ttl=ttl)

    was_pushed = waiter.ask()

    assert not was_pushed
    assert waiter.grant is not None
    assert waiter.grant.window is None


@pytest.mark.parametrize("ttl", [10.0, 1.0], ids="ttl {}".format)
def test_a_message_that_comes_soon_is_enough(store: Shelved, ttl: float) -> None:
    """A message that comes early grants the claim for one window, or for a shorter ttl."""
    waiter = pushed(store, after=0.45 * min(ttl, ADMISSION_WINDOW_SECONDS), ttl=ttl)

    was_pushed = waiter.ask()

    assert was_pushed
    assert waiter.grant is not None
    assert waiter.grant.window is not None
    assert waiter.grant.window.seconds == min(ttl, ADMISSION_WINDOW_SECONDS)


def test_a_question_that_is_not_answered_leaves_the_claim_where_it_was(store: Shelved) -> None:
    """The inbox keeps listening for a claim whose request was not answered."""
    waiter = pushed(store, after=0.9 * ADMISSION_WINDOW_SECONDS)
    inbox, transport = store.backend._inbox, store.backend._transport

    transport.is_cut = True  # type: ignore[union-attr]
    with pytest.raises(OutcomeUnknown):
        waiter.ask()
    is_heard_for = waiter.claim.id in inbox.schedule.waiting
    transport.is_cut = False  # type: ignore[union-attr]
    waiter.ask()

    assert is_heard_for
    assert waiter.grant is not None
    assert waiter.claim.id not in inbox.schedule.waiting


@pytest.mark.parametrize(
    "more",
    [{"party": "saga"}, {"lock_delay": 1.0}, {"min_hold": 1.0}],
    ids=lambda one: next(iter(one)),
)
def test_where_more_hangs_on_a_grant_it_is_asked_for(store: Shelved, more: dict[str, Any]) -> None:
    waiter = pushed(store, after=0.1, **more)

    was_pushed = waiter.ask()

    assert not was_pushed
    assert waiter.grant is not None
