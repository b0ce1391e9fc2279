"""The scripts do what `core.door` says, step by step, and never walk the line."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import pytest
from backends.redis.scripted import NAME, Scripted, claim

from holdfast.backends.redis import requests
from holdfast.backends.redis.scripts import redis_script
from holdfast.core.door import TOMBSTONE, WINDOW, Door
from holdfast.errors import ConfigurationError
from holdfast.model import ALL, Claim, Grant, Held, Renewal
from holdfast.options import LONGEST_TTL


@pytest.fixture
def scripted():
    store = Scripted()
    yield store
    store.close()


def test_the_scripts_have_the_times_of_the_door() -> None:
    """Two languages, one number each."""
    source = redis_script("acquire").source.decode()

    assert f"WINDOW, TOMBSTONE = {WINDOW * 1e6:.0f}, {TOMBSTONE * 1e6:.0f}" in source
    assert f"STEPS, SHOWN = {requests.PAGE}, {requests.PAGE}" in source
    assert f"LONGEST = {LONGEST_TTL * 1e6:.0f}" in source


# -- the same answers -----------------------------------------------------------------------


KINDS = {
    "mutex": {"capacity": 1, "weights": (1,)},
    "semaphore": {"capacity": 4, "weights": (1, 1, 2, 4)},
    "rwlock": {"capacity": ALL, "weights": (1, 1, 1, ALL)},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(12))
def test_the_scripts_answer_as_the_door_does(kind: str, seed: int, scripted: Scripted) -> None:
    """Any row of verbs, on both, by the same clock: the same answers and tokens."""
    chance = random.Random(f"{kind} {seed}")  # noqa: S311
    walk = Walk(scripted, chance, **KINDS[kind])

    for _ in range(250):
        walk.step()

    assert walk.counts["Grant"] > 5
    assert walk.counts["Held"] > 5


class Walk:
    """Takes the same random steps on a door and on the scripts."""

    def __init__(
        self, scripted: Scripted, chance: random.Random, *, capacity: int, weights: tuple[int, ...]
    ) -> None:
        self.scripted = scripted
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
        return self.chance.choice(self.claims[-12:])

    def new_claim(self) -> Claim:
        chance = self.chance
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
        """What must be the same: when to ask again is a hint, and each store's own.

        A place may count some who are gone and not yet dropped.
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
        one, tombstone = self.some_claim(), self.chance.random() < 0.3
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
        """What the scripts count is what is there."""
        records = self.scripted.records()
        if not records:
            return
        self.check_ends(records)
        if b"solo" in records:
            # One hold, and nothing else that would have to be counted.
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
        """All keys of a name vanish together, or a lock per order id would fill the store."""
        keys = [self.scripted.key(one) for one in requests.KEYS]
        ends = {self.scripted.ask("PEXPIRETIME", one) for one in keys} - {-2}
        assert ends == {int(records[b"keep"])}


# -- ten thousand in line -------------------------------------------------------------------


RUNS = 12


@pytest.fixture
def slow_each_time(scripted: Scripted):
    """Say which calls of a row took a millisecond or more, however often it was repeated.

    The server's own log counts the time in which it had to wait for a processor, too; so
    on a busy machine even a lone HSET is there. A script that walks is slow each time, at
    the same call; one that was interrupted is not.
    """
    scripted.ask("CONFIG", "SET", "slowlog-log-slower-than", 1000, "slowlog-max-len", 50_000)

    def measured(act, *, calls: int, is_dear=lambda: False) -> set[tuple[bytes, ...]]:
        found: set[tuple[bytes, ...]] | None = None
        for _ in range(RUNS):
            scripted.ask("DEL", *(scripted.key(one) for one in requests.KEYS))
            scripted.ask("SLOWLOG", "RESET")
            before = scripted.scripts_run()
            act()
            assert scripted.scripts_run() - before == calls
            commands = [tuple(one[3]) for one in scripted.ask("SLOWLOG", "GET", -1)]
            slow = {one for one in commands if one[0] == b"EVALSHA"}
            found = slow if found is None else found & slow
            if not found and not is_dear():
                break
        return found or set()

    return measured


def test_no_script_walks_the_line(scripted: Scripted, slow_each_time) -> None:
    """With up to 10,000 waiters on one name no call of any verb takes a millisecond.

    Nor does joining cost more behind ten thousand than behind a few.
    """
    scripted.prepare("acquire", "release", "withdraw", "renew", "beat", "inspect", "break")
    waiters = [claim(n, client=f"client{n % 100}") for n in range(1, 10_001)]
    asked = [requests.acquire(scripted.keys.of(NAME), one, "inbox") for one in waiters]
    holder = claim(0, client="holder")
    costs: list[list[float]] = []

    def every_verb() -> None:
        scripted.arrive(holder)
        worked = [scripted.worked()]
        for i in range(0, 10_000, 1000):
            for j in range(i, i + 1000, 100):
                scripted.run_all("acquire", asked[j : j + 100])
            worked.append(scripted.worked())
        costs.append([after - before for before, after in pairwise(worked)])
        assert scripted.ask("ZCARD", scripted.key("line")) == 10_000
        scripted.renew(holder)
        scripted.release(holder, tombstone=False)
        for one in waiters[:20]:
            scripted.arrive(one)
            scripted.beat(one.client)
            scripted.release(one, tombstone=True)
        for one in waiters[-200:]:
            scripted.withdraw(one, tombstone=True)
        scripted.now += WINDOW  # the one admitted was silent: its client's 100 claims are void
        scripted.arrive(claim(10_001))
        scripted.inspect()
        scripted.break_()

    def is_dear() -> bool:
        first, *_, last = (min(one) for one in zip(*costs, strict=True))
        return last >= 1.5 * first

    calls = 1 + 10_000 + 2 + 20 * 3 + 200 + 3
    assert slow_each_time(every_verb, calls=calls, is_dear=is_dear) == set()
    assert not is_dear(), costs


def test_a_thousand_readers_are_let_in_by_turns(scripted: Scripted, slow_each_time) -> None:
    """None of the scripts that let them in takes a millisecond, and none is left outside."""
    writer = claim(0, capacity=ALL, weight=ALL)
    readers = [claim(n, capacity=ALL) for n in range(1, 1001)]
    keys = scripted.keys.of(NAME)

    def the_writer_leaves() -> None:
        scripted.arrive(writer)
        joining = [requests.acquire(keys, one, "inbox") for one in readers]
        scripted.run_all("acquire", joining)
        scripted.release(writer, tombstone=False)
        answers = [scripted.arrive(one) for one in readers]
        tokens = [one.token for one in answers if isinstance(one, Grant)]
        assert len(tokens) == 1000
        assert tokens == sorted(set(tokens))

    assert slow_each_time(the_writer_leaves, calls=2002) == set()


def test_the_dead_are_passed_over_by_turns(scripted: Scripted) -> None:
    """Whoever beats next goes on where the last script stopped, until a live one is let in."""
    scripted.arrive(claim(0, client="holder"))
    for n in range(1, 500):
        scripted.arrive(claim(n, client="dead"))
    alive = claim(500, client="alive")
    scripted.arrive(alive)
    scripted.now += 30  # the holder's time is up, then the first of the dead is let in
    scripted.beat("alive")
    scripted.now += WINDOW  # and does not answer

    turns = 0
    while scripted.beat("alive").is_unsettled:
        turns += 1

    assert 25 < turns < 40
    assert isinstance(scripted.arrive(alive), Grant)


# -- tokens, and how long a name is remembered -----------------------------------------------


def test_tokens_grow_when_the_clock_is_put_back(scripted: Scripted) -> None:
    """One hour ahead, then right again: still one more than the last."""
    scripted.now += 3600
    first = scripted.arrive(claim(1))
    scripted.release(claim(1), tombstone=False)
    scripted.now -= 3600

    second = scripted.arrive(claim(2))

    assert second.token == first.token + 1


def test_a_name_is_remembered_a_day_beyond_its_last_token(scripted: Scripted) -> None:
    """Not beyond its last use: a clock that once jumped ahead would let tokens fall."""
    scripted.now += 3600
    scripted.arrive(claim(1))
    scripted.release(claim(1), tombstone=False)
    scripted.now -= 3600
    scripted.arrive(claim(2))
    scripted.release(claim(2), tombstone=False)

    vanishes_at = scripted.ask("PEXPIRETIME", scripted.keys.door(NAME)) / 1000

    assert vanishes_at >= scripted.now + 3600 + 24 * 3600
    assert vanishes_at <= scripted.now + 3600 + 26 * 3600


def test_a_name_is_remembered_while_it_is_held_and_renewed(scripted: Scripted) -> None:
    """A lease may be renewed for a week with the token of its first day."""
    holder, waiter = claim(1, ttl=600.0), claim(2)
    scripted.arrive(holder)
    scripted.arrive(waiter)

    for _ in range(7 * 24 * 8):
        scripted.now += 3600 / 8
        assert scripted.renew(holder) is Renewal.RENEWED

    for what in ("door", "ends", "line"):
        assert scripted.ask("PEXPIRETIME", scripted.key(what)) / 1000 > scripted.now + 24 * 3600


def test_every_key_of_a_name_vanishes_by_itself(scripted: Scripted) -> None:
    """Whatever a dead client left behind, with parties, tombstones and waiters."""
    scripted.arrive(claim(1, party="saga"))
    scripted.arrive(claim(2))
    scripted.arrive(claim(3, party="other"))
    scripted.withdraw(claim(4), tombstone=True)

    lives = {what: scripted.ask("PEXPIRETIME", scripted.key(what)) for what in requests.KEYS}

    assert all(moment > 0 for moment in lives.values()), lives


@pytest.mark.parametrize("verb", ["release", "break_", "expire"])
def test_times_beyond_all_counting_leave_no_key_without_an_end(
    verb: str, scripted: Scripted
) -> None:
    """No client of ours sends them; the server must not stop in the middle of a verb."""
    holder = claim(1, client="holder", ttl=1.0, lock_delay=1e16, min_hold=1e16)
    scripted.arrive(holder)
    scripted.arrive(claim(2))

    if verb == "release":
        assert scripted.release(holder, tombstone=True)
    elif verb == "break_":
        scripted.break_()
    scripted.now += 2
    scripted.arrive(claim(2))

    there = [what for what in requests.KEYS if scripted.ask("EXISTS", scripted.key(what))]
    assert {"door", "ends", "line"} <= set(there)
    assert all(scripted.ask("PEXPIRETIME", scripted.key(what)) > 0 for what in there)


# -- clocks and silence ----------------------------------------------------------------------


def test_a_clock_put_back_does_not_keep_a_dead_holder_for_ever(scripted: Scripted) -> None:
    """An hour back: the name is free after the holder's ttl, not after an hour."""
    scripted.arrive(claim(1, ttl=90.0))
    scripted.now -= 3600
    scripted.arrive(claim(2))
    scripted.now += 90

    assert isinstance(scripted.arrive(claim(2)), Grant)


def test_those_who_were_not_heard_for_long_are_passed_over(scripted: Scripted) -> None:
    """Three heartbeats missed: the line does not wait for the dead, one window each."""
    scripted.patience = 7_000_000
    scripted.arrive(claim(0, ttl=60.0))
    for n in range(1, 10):
        scripted.arrive(claim(n, client=f"dead{n}"))
    alive = claim(10, client="alive")
    scripted.arrive(alive)
    for _ in range(5):
        scripted.now += 2
        scripted.beat("alive")

    scripted.release(claim(0), tombstone=False)

    assert isinstance(scripted.arrive(alive), Grant)


def test_clients_that_fell_silent_together_cost_one_window(scripted: Scripted) -> None:
    """However many there are: who lives was heard while the first one's window ran."""
    scripted.patience = 7_000_000
    scripted.arrive(claim(0, ttl=60.0))
    for n in range(1, 101):
        scripted.arrive(claim(n, client=f"dead{n}"))
    alive = claim(101, client="alive")
    scripted.arrive(alive)

    scripted.release(claim(0), tombstone=False)
    scripted.now += 2
    scripted.beat("alive")
    scripted.now += WINDOW - 2
    while scripted.beat("alive").is_unsettled:
        pass

    assert isinstance(scripted.arrive(alive), Grant)


def test_who_was_heard_while_the_window_of_the_dead_ran_keeps_its_place(
    scripted: Scripted,
) -> None:
    """A window that ran out is held against none of those who beat meanwhile."""
    scripted.patience = 7_000_000
    scripted.arrive(claim(0, ttl=60.0))
    for n, client in enumerate(("dead", "first", "second"), 1):
        scripted.arrive(claim(n, client=client))
    scripted.now += 1
    scripted.release(claim(0), tombstone=False)
    scripted.now += 0.1
    for client in ("first", "second"):
        scripted.beat(client)
    scripted.now += WINDOW

    scripted.beat("second")

    assert isinstance(scripted.arrive(claim(2, client="first")), Grant)
    assert scripted.arrive(claim(3, client="second")).place == 1


def test_who_was_passed_over_for_its_silence_is_told_though_others_of_its_client_wait(
    scripted: Scripted,
) -> None:
    """Its heartbeat was only late, and says now that the client lives."""
    scripted.patience = 7_000_000
    scripted.arrive(claim(0, ttl=60.0))
    for n, client in enumerate(("dead", "late", "other", "other", "late"), 1):
        scripted.arrive(claim(n, client=client))
    epoch = scripted.beat("late").epoch
    scripted.release(claim(0), tombstone=False)
    scripted.now += 1
    scripted.beat("other")
    scripted.now += WINDOW - 1
    scripted.beat("other")
    assert isinstance(scripted.arrive(claim(3, client="other")), Grant)

    assert scripted.beat("late").epoch != epoch

    assert scripted.arrive(claim(2, client="late")).place == 3
    assert scripted.arrive(claim(5, client="late")).place == 3


def test_a_window_that_ran_out_is_forgotten_with_the_line(scripted: Scripted) -> None:
    """What was held against those who waited then is kept no longer than they wait."""
    scripted.patience = 7_000_000
    scripted.arrive(claim(0, ttl=60.0))
    scripted.arrive(claim(1, client="dead"))
    scripted.arrive(claim(2, client="alive"))
    scripted.release(claim(0), tombstone=False)
    scripted.now += WINDOW

    scripted.beat("alive")

    assert isinstance(scripted.arrive(claim(2, client="alive")), Grant)
    assert scripted.ask("HEXISTS", scripted.key("door"), "doubt") == 0


def test_a_late_request_does_not_divert_the_rings_of_its_client(scripted: Scripted) -> None:
    """It names the inbox that was open when it was sent; the one opened later stays."""
    scripted.arrive(claim(0, client="holder"))
    keys = scripted.keys.of(NAME)

    for n, inbox in ((1, "10.new"), (2, "9.old"), (3, "")):
        scripted.run("acquire", requests.acquire(keys, claim(n, client="me"), inbox))
    scripted.run("beat", requests.beat([(keys, "me")], "9.old"))

    record = scripted.ask("HGET", scripted.key("door"), "@me")
    assert record.split()[-1] == b"10.new"


def test_a_waiter_that_asks_by_itself_keeps_its_place_however_long_it_was_silent(
    scripted: Scripted,
) -> None:
    """Only when its turn came meanwhile is it too late."""
    scripted.patience = 7_000_000
    scripted.arrive(claim(0, ttl=600.0))
    for n in (1, 2):
        scripted.arrive(claim(n, client=f"client{n}"))
    scripted.now += 60

    answer = scripted.arrive(claim(1, client="client1"))

    assert isinstance(answer, Held)
    assert answer.place == 1


def test_a_client_turned_away_learns_it_by_its_heartbeat(scripted: Scripted) -> None:
    """Its epoch is another one, so it asks again and stands at the end."""
    scripted.arrive(claim(0))
    for n in (1, 2):
        scripted.arrive(claim(n, client="slow"))
    scripted.arrive(claim(3, client="other"))
    before = scripted.beat("slow").epoch
    scripted.release(claim(0), tombstone=False)
    scripted.now += WINDOW

    after = scripted.beat("slow").epoch
    scripted.arrive(claim(3, client="other"))
    again = scripted.arrive(claim(2, client="slow"))

    assert after != before
    assert isinstance(again, Held)
    assert [one.token for one in again.holders] != []


# -- damage ----------------------------------------------------------------------------------


@pytest.mark.parametrize("evicted", requests.KEYS)
def test_a_name_survives_the_eviction_of_any_of_its_keys(evicted: str, scripted: Scripted) -> None:
    """A server with the wrong policy may lose a lock, but never blocks a name."""
    scripted.arrive(claim(0, party="saga"))
    scripted.arrive(claim(1, party="saga"))
    for n in (2, 3):
        scripted.arrive(claim(n, client=f"client{n}"))
    scripted.withdraw(claim(4), tombstone=True)
    scripted.ask("DEL", scripted.key(evicted))

    for _ in range(3):
        for n in range(4):
            scripted.arrive(claim(n, client=f"client{n}"))
            scripted.renew(claim(n))
            scripted.beat(f"client{n}")
            scripted.release(claim(n), tombstone=n == 2)
        scripted.inspect()
        scripted.now += 61

    assert isinstance(scripted.arrive(claim(9)), Grant)


def test_a_newer_format_is_refused(scripted: Scripted) -> None:
    """A door that a newer Holdfast wrote is left alone."""
    scripted.arrive(claim(0))
    scripted.ask("HSET", scripted.keys.door(NAME), "format", 2)

    with pytest.raises(AssertionError, match="HOLDFAST_FORMAT 2"):
        scripted.arrive(claim(1))
