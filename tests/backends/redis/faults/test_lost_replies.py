"""Requests that the server executed, whose replies never came; requests that came too late."""

from __future__ import annotations

import pytest

from lockfast import BackendUnavailable, OutcomeUnknown
from lockfast.backends.redis.scripts import redis_script

ACQUIRE, ACQUIRE_ALL, RENEW, RELEASE, BEAT = (
    redis_script(verb).sha for verb in ("acquire", "acquire_all", "renew", "release", "beat")
)
TTL = 60.0
"""Longer than any test, in seconds: what is gone has not simply expired."""


@pytest.fixture
def locks(flavour, proxy, diary):
    return flavour.locks(proxy.url, ttl=TTL, request_timeout=0.5, on_event=diary)


@pytest.fixture
def scripts_run(server):
    """Return a function that counts the script calls which the server has run."""
    with server.client() as client:
        yield lambda: client.info("commandstats")["cmdstat_evalsha"]["calls"]


def test_a_reply_lost_on_acquire_costs_a_moment(locks, proxy, line):
    """The retry gets the same grant: one hold, one token."""
    lost = proxy.lose_reply_to(ACQUIRE)

    lease = locks.lock("door").acquire(timeout=20)

    assert lost.is_set()
    assert line("door") == ([lease.token], 0)
    assert locks.inspect("door").last_token == lease.token
    lease.release()
    assert line("door") == ([], 0)


def test_several_names_that_are_free_cost_one_request(locks, scripts_run, line):
    """All of them in one step on the server."""
    locks.lock("door").acquire().release()
    before = scripts_run()

    leases = locks.all("c", "a", "b").acquire(timeout=20)

    assert scripts_run() - before == 1
    assert [lease.name for lease in leases] == ["c", "a", "b"]
    assert [line(name)[0] for name in "cab"] == [[lease.token] for lease in leases]
    for lease in leases:
        lease.release()
    assert [line(name) for name in "abc"] == [([], 0)] * 3


def test_several_names_are_not_taken_in_part(flavour, locks, server, line):
    """One of them is held: the others stay free for clients that need only those."""
    lease = flavour.locks(server.url).lock("b").acquire()

    assert locks.all("a", "b", "c").try_acquire() is None

    assert [line(name) for name in "abc"] == [([], 0), ([lease.token], 0), ([], 0)]


def test_a_reply_lost_on_several_names_leaves_no_second_hold(locks, proxy, line):
    """The claims are withdrawn, and the names are requested one by one."""
    lost = proxy.lose_reply_to(ACQUIRE_ALL)

    leases = locks.all("a", "b").acquire(timeout=20)

    assert lost.is_set()
    assert [line(name) for name in "ab"] == [([lease.token], 0) for lease in leases]
    for lease in leases:
        lease.release()
    assert [line(name) for name in "ab"] == [([], 0)] * 2


@pytest.mark.parametrize("after", [1, 5, 17], ids="{} bytes".format)
def test_a_reply_cut_in_the_middle_costs_a_moment(locks, proxy, line, after):
    """Half a token is no token."""
    cut = proxy.cut_reply_to(ACQUIRE, after=after)

    lease = locks.lock("door").acquire(timeout=20)

    assert cut.is_set()
    assert line("door") == ([lease.token], 0)


def test_a_refusal_cut_in_the_middle_keeps_the_place_in_line(
    locks, proxy, flavour, line, eventually
):
    """The retry finds the claim where the first request put it."""
    first = flavour.locks(proxy.url).lock("door")
    lease = first.acquire()
    cut = proxy.cut_reply_to(ACQUIRE, after=20)

    waiter = flavour.start(locks.lock("door").acquire, timeout=20)
    eventually(cut.is_set)
    eventually(lambda: line("door") == ([lease.token], 1))
    lease.release()

    assert waiter.result(20).token > lease.token


def test_when_no_acquire_is_answered_nothing_is_left_behind(locks, proxy, line):
    """The server granted it; the caller learns that it was not acquired, and it is undone."""
    proxy.lose_reply_to(ACQUIRE, times=9)

    with pytest.raises(BackendUnavailable, match="withdrawn"):
        locks.lock("door").acquire(timeout=5)

    assert line("door") == ([], 0)


def test_a_reply_lost_on_renew_puts_the_lease_at_risk_and_no_more(
    flavour, proxy, diary, eventually
):
    """The next renewal is answered."""
    locks = flavour.locks(proxy.url, ttl=1.2, request_timeout=0.2, on_event=diary)
    lost = proxy.lose_reply_to(RENEW)
    lock = locks.lock("door")
    lease = lock.acquire()

    eventually(lambda: "Renewed" in diary.kinds())

    assert lost.is_set()
    assert diary.kinds() == ["Acquired", "AtRisk", "SafeAgain", "Renewed"]
    lease.check()


def test_renewals_that_are_never_answered_extend_nothing(flavour, server, proxy, diary, line):
    """The server applied each renewal, but the holder cannot know, and stops in time."""
    locks = flavour.locks(proxy.url, ttl=1.2, request_timeout=0.2, on_event=diary)
    proxy.lose_reply_to(RENEW, times=99)
    lock = locks.lock("door")
    lease = lock.acquire()
    until = lease._hold.until

    assert lease.lost.wait(20)

    assert lease.lost.reason == "expired"
    assert lease._hold.until == until
    assert diary.time_of("AtRisk") < until <= diary.time_of("Lost") < until + 0.5
    following = flavour.locks(server.url).lock("door").acquire(timeout=3)
    assert following.token > lease.token


def test_a_reply_lost_on_release_is_said_and_can_be_repeated(locks, proxy, line):
    """It was sent while the lease was trusted, so it is clean, whatever the retry finds."""
    lock = locks.lock("door")
    lease = lock.acquire()
    proxy.lose_reply_to(RELEASE)

    with pytest.raises(OutcomeUnknown):
        lease.release()
    assert line("door") == ([], 0)
    lease.release()

    assert lease.lost.reason is None


def test_a_lost_request_to_release_goes_on_in_the_background(
    flavour, server, locks, proxy, eventually
):
    """Nothing reached the server, yet the name is free long before the ttl, without the caller."""
    lock = locks.lock("door")
    lease = lock.acquire()
    proxy.hold_requests(RELEASE)

    with pytest.raises(OutcomeUnknown):
        lease.release()

    following = flavour.locks(server.url).lock("door").acquire(timeout=5)
    assert following.token > lease.token


# -- late requests ---------------------------------------------------------------------------


def test_an_acquire_that_comes_after_its_withdrawal_is_refused(
    locks, proxy, line, scripts_run, eventually
):
    """Law 6: both requests were delayed; nothing is left behind when they arrive."""
    proxy.hold_requests(ACQUIRE, times=9)
    with pytest.raises(BackendUnavailable, match="withdrawn"):
        locks.lock("door").acquire(timeout=5)

    before = scripts_run()
    proxy.let_through()

    eventually(lambda: scripts_run() == before + 2)
    assert line("door") == ([], 0)


def test_an_acquire_that_comes_after_the_release_of_its_repeat_is_refused(
    locks, proxy, line, scripts_run, eventually
):
    """The first request is delayed, the second granted and released; then the first arrives."""
    proxy.hold_requests(ACQUIRE)
    locks.lock("door").acquire(timeout=20).release()

    before = scripts_run()
    proxy.let_through()

    eventually(lambda: scripts_run() == before + 1)
    assert line("door") == ([], 0)


def test_a_renewal_that_comes_after_the_release_brings_nothing_back(
    locks, proxy, line, scripts_run, eventually
):
    """A late renewal finds no hold for its claim."""
    proxy.hold_requests(RENEW)
    lock = locks.lock("door")
    lease = lock.acquire()
    with pytest.raises(OutcomeUnknown):
        lease.renew()
    lease.release()

    before = scripts_run()
    proxy.let_through()

    eventually(lambda: scripts_run() == before + 1)
    assert line("door") == ([], 0)
