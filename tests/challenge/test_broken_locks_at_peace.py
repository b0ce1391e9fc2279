"""Without faults, the broken locks and the controls do what a lock does."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from lockfast_challenge.broken.locks import DateAsValue
from lockfast_challenge.broken.registry import ACKNOWLEDGED, FLAWS, PATIENT_REDLOCK, SINGLE_SERVER
from lockfast_challenge.contender import NotGranted, made_by
from lockfast_challenge.processes import EVENTUALLY_SECONDS, eventually
from lockfast_challenge.servers.proxy import Proxy
from lockfast_challenge.servers.redis import RedisServer, until

ALL = sorted({one.lock for one in FLAWS} | {one.control for one in FLAWS})
LOCKS = [one for one in ALL if one != PATIENT_REDLOCK]
"""The locks that a newly started server grants at once."""
THAT_END = [one for one in LOCKS if "ResurrectingWatchdog" not in one]
"""The locks whose lease ends by itself while its holder lives."""
WITH_TOKENS = [one for one in LOCKS if "CountedToken" in one or one == ACKNOWLEDGED]

_names = itertools.count()


@pytest.fixture
def name() -> str:
    return f"door-{next(_names)}"


@pytest.fixture(scope="module")
def url():
    """A master with an up-to-date replica, and two more servers: enough for a lock of each kind."""
    with ExitStack() as stack:
        started = [stack.enter_context(RedisServer()) for _ in range(3)]
        master = started[0].port
        copy = stack.enter_context(RedisServer("--replicaof", "127.0.0.1", str(master)))
        replica = stack.enter_context(copy.client())
        until(lambda: replica.info("replication")["master_link_status"] == "up")
        yield f"redis://{','.join(one.address for one in started)}"


@pytest.fixture
def opened(url):
    """Return a function that creates a contender."""
    with ExitStack() as stack:

        def make(lock: str, *, ttl: float = 60.0, clock_ahead: float = 0.0):
            made = made_by(lock)(url, ttl=ttl, clock_ahead=clock_ahead)
            return stack.enter_context(made)

        yield make


@pytest.mark.parametrize("lock", [one for one in LOCKS if "UncheckedAcquire" not in one])
def test_while_one_holds_no_other_does(lock, opened, name):
    one, other = opened(lock), opened(lock)
    held = one.acquire(name, timeout=EVENTUALLY_SECONDS)

    with pytest.raises(NotGranted):
        other.acquire(name, timeout=0.0)

    held.check()
    held.release()
    other.acquire(name, timeout=EVENTUALLY_SECONDS).release()


@pytest.mark.parametrize("lock", THAT_END)
def test_a_lease_that_nobody_gives_back_ends(lock, opened, name):
    opened(lock, ttl=0.05).acquire(name, timeout=EVENTUALLY_SECONDS)

    held = opened(lock).acquire(name, timeout=EVENTUALLY_SECONDS)

    held.check()
    held.release()


@pytest.mark.parametrize("lock", WITH_TOKENS)
def test_each_holder_has_a_larger_token(lock, opened, name):
    one = opened(lock)
    tokens = []
    for _ in range(3):
        held = one.acquire(name, timeout=EVENTUALLY_SECONDS)
        tokens.append(held.token)
        held.release()

    assert tokens == sorted(set(tokens))


@pytest.mark.parametrize("lock", [SINGLE_SERVER, ACKNOWLEDGED])
def test_a_control_that_comes_too_late_frees_nobody(lock, opened, name):
    late = opened(lock, ttl=0.05).acquire(name, timeout=EVENTUALLY_SECONDS)
    opened(lock).acquire(name, timeout=EVENTUALLY_SECONDS)

    with pytest.raises(NotGranted):
        late.check()
    with pytest.raises(NotGranted):
        late.release()

    with pytest.raises(NotGranted):
        opened(lock).acquire(name, timeout=0.0)


def test_a_control_does_not_hold_what_no_replica_knows(name):
    with RedisServer() as alone:
        made = made_by(ACKNOWLEDGED)(alone.url, ttl=0.4, clock_ahead=0.0)

        with made as contender, pytest.raises(NotGranted):
            contender.acquire(name, timeout=0.0)

        with alone.client() as client:
            assert not client.exists(name)


def test_a_node_votes_only_when_it_is_older_than_any_lease(opened, name):
    with pytest.raises(NotGranted):
        opened(PATIENT_REDLOCK, ttl=3600.0).acquire(name, timeout=0.0)

    opened(PATIENT_REDLOCK, ttl=0.5).acquire(name, timeout=EVENTUALLY_SECONDS)


def test_whoever_is_ahead_of_its_time_takes_a_dated_lock_from_its_holder(url, name):
    with DateAsValue(url, ttl=60.0) as one, DateAsValue(url, ttl=60.0, clock_ahead=61.0) as other:
        first = one.acquire(name, timeout=EVENTUALLY_SECONDS)
        second = other.acquire(name, timeout=EVENTUALLY_SECONDS)

        first.check()
        second.check()


def test_whoever_is_too_late_to_take_a_dated_lock_over_has_replaced_the_winners_date(url, name):
    with ExitStack() as stack:
        port = int(url.partition(",")[0].rpartition(":")[2])
        way = stack.enter_context(Proxy(port, scheme="redis"))
        dead, winner = (stack.enter_context(DateAsValue(url, ttl=ttl)) for ttl in (0.05, 60.0))
        late = stack.enter_context(DateAsValue(way.url, ttl=60.0))
        date = dead.acquire(name, timeout=EVENTUALLY_SECONDS).until
        eventually(lambda: dead.clock() > date, what="the date of the dead has passed")
        seen = way.hold_replies(lambda request: b"\r\nGET\r\n" in request.data)
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(late.try_acquire, name)
            assert seen.wait(EVENTUALLY_SECONDS)
            held = winner.try_acquire(name)
            way.let_through()
            refused = asked.result(EVENTUALLY_SECONDS)

        assert held is not None
        assert refused is None
        assert float(winner.redis.get(name)) < held.until
