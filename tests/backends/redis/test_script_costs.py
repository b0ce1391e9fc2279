"""No script walks the whole line, however long the line is."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from backends.redis.scripted import NAME, Scripted, claim

from lockfast.backends.redis import requests
from lockfast.core.door import ADMISSION_WINDOW_SECONDS
from lockfast.model import ALL, Grant

RUNS = 12


@pytest.fixture
def slow_each_time(scripted: Scripted):
    """Return a function that finds calls which take a millisecond or more in every run.

    The server's slow log includes the time spent waiting for a processor, so on a busy machine even
    a lone HSET appears in it. A script that walks the line is slow in every run, at the same call;
    a script that was only interrupted is not.
    """
    scripted.ask("CONFIG", "SET", "slowlog-log-slower-than", 1000, "slowlog-max-len", 50_000)

    def measured(act, *, calls: int, is_dear=lambda: False) -> set[tuple[bytes, ...]]:
        found: set[tuple[bytes, ...]] | None = None
        for _ in range(RUNS):
            scripted.ask("DEL", *(scripted.key(one) for one in requests.DOOR_KEYS))
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

    Nor does joining behind ten thousand cost more than joining behind a few.
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
        # The admitted claim did not answer, so all 100 claims of its client are void.
        scripted.now += ADMISSION_WINDOW_SECONDS
        scripted.arrive(claim(10_001))
        scripted.inspect()
        scripted.break_()

    def is_dear() -> bool:
        first, *_, last = (min(one) for one in zip(*costs, strict=True))
        return last >= 1.5 * first

    calls = 1 + 10_000 + 2 + 20 * 3 + 200 + 3
    assert slow_each_time(every_verb, calls=calls, is_dear=is_dear) == set()
    assert not is_dear(), costs


def test_a_hand_over_takes_few_commands(scripted: Scripted) -> None:
    """A release, the next admission and a new arrival all stay on the fast path.

    The slow path runs half as many commands again, and takes twice the time because of everything
    that it has to define.
    """
    first, second, third, again = (claim(n, client=f"client{n}") for n in (1, 2, 3, 4))
    scripted.prepare("acquire", "release")
    for one in (first, second, third):
        scripted.arrive(one)
    scripted.now += 1
    scripted.ask("CONFIG", "RESETSTAT")

    scripted.release(first, tombstone=False)
    scripted.arrive(again)

    counted = scripted.ask("INFO", "commandstats")
    calls = dict(re.findall(rb"cmdstat_(\w+):calls=(\d+)", counted))
    inside = (b"hmget", b"hget", b"zrange", b"zscore", b"zadd", b"zrem", b"zrank", b"publish")
    assert sum(int(calls[one]) for one in inside) == 18  # two of the calls read the test's clock
    assert b"exists" not in calls
    assert isinstance(scripted.arrive(second), Grant)


def test_a_thousand_readers_are_let_in_by_turns(scripted: Scripted, slow_each_time) -> None:
    """Many script calls, each shorter than a millisecond, admit all of the thousand readers."""
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
    """Each heartbeat goes on where the last script stopped, until a live client is admitted."""
    scripted.arrive(claim(0, client="holder"))
    for n in range(1, 500):
        scripted.arrive(claim(n, client="dead"))
    alive = claim(500, client="alive")
    scripted.arrive(alive)
    scripted.now += 30  # the holder's ttl is over, then the first dead waiter is admitted
    scripted.beat("alive")
    scripted.now += ADMISSION_WINDOW_SECONDS  # the dead waiter does not answer

    turns = 0
    while scripted.beat("alive").is_unsettled:
        turns += 1

    assert 25 < turns < 40
    assert isinstance(scripted.arrive(alive), Grant)
