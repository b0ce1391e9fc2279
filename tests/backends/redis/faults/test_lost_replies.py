"""Requests that the server executed but whose reply was lost, and requests that arrive late."""

from __future__ import annotations

import pytest

from lockfast import BackendUnavailable, OutcomeUnknown
from lockfast.backends.redis.scripts import redis_script

ACQUIRE, ACQUIRE_ALL, RENEW, RELEASE, BEAT = (
    redis_script(verb).sha for verb in ("acquire", "acquire_all", "renew", "release", "beat")
)
TTL = 60.0
"""Seconds; longer than any test, so that no lock ends by expiry."""


@pytest.fixture
def locks(flavour, proxy, diary):
    return flavour.locks(proxy.url, ttl=TTL, request_timeout=0.5, on_event=diary)


@pytest.fixture
def scripts_run(server):
    """Return a function that counts the script calls which the server has run."""
    with server.client() as client:
        yield lambda: client.info("commandstats")["cmdstat_evalsha"]["calls"]


def test_a_reply_lost_on_acquire_costs_a_moment(locks, proxy, line):
    """A repeated acquire gets the grant whose reply was lost: one hold, one token."""
    lost = proxy.lose_reply_to(ACQUIRE)

    lease = locks.lock("door").acquire(timeout=20)

    assert lost.is_set()
    assert line("door") == ([lease.token], 0)
    assert locks.inspect("door").last_token == lease.token
    lease.release()
    assert line("door") == ([], 0)


def test_several_names_that_are_free_cost_one_request(locks, scripts_run, line):
    """One request acquires several free names in a single step on the server."""
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
    """While one of the names is held, the free names are left to other clients."""
    lease = flavour.locks(server.url).lock("b").acquire()

    assert locks.all("a", "b", "c").try_acquire() is None

    assert [line(name) for name in "abc"] == [([], 0), ([lease.token], 0), ([], 0)]


def test_a_reply_lost_on_several_names_leaves_no_second_hold(locks, proxy, line):
    """After a lost reply, all claims are withdrawn and the names are requested one by one."""
    lost = proxy.lose_reply_to(ACQUIRE_ALL)

    leases = locks.all("a", "b").acquire(timeout=20)

    assert lost.is_set()
    assert [line(name) for name in "ab"] == [([lease.token], 0) for lease in leases]
    for lease in leases:
        lease.release()
    assert [line(name) for name in "ab"] == [([], 0)] * 2


@pytest.mark.parametrize("after", [1, 5, 17], ids="{} bytes".format)
def test_a_reply_cut_in_the_middle_costs_a_moment(locks, proxy, line, after):
    """A reply that is cut off within the token is not read as a shorter token."""
    cut = proxy.cut_reply_to(ACQUIRE, after=after)

    lease = locks.lock("door").acquire(timeout=20)

    assert cut.is_set()
    assert line("door") == ([lease.token], 0)


def test_a_refusal_cut_in_the_middle_keeps_the_place_in_line(
    locks, proxy, flavour, line, eventually
):
    """The repeated request finds its claim at the place in line that the first request took."""
    first = flavour.locks(proxy.url).lock("door")
    lease = first.acquire()
    cut = proxy.cut_reply_to(ACQUIRE, after=20)

    waiter = flavour.start(locks.lock("door").acquire, timeout=20)
    eventually(cut.is_set)
    eventually(lambda: line("door") == ([lease.token], 1))
    lease.release()

    assert waiter.result(20).token > lease.token


def test_when_no_acquire_is_answered_nothing_is_left_behind(locks, proxy, line):
    """The server granted the lock, but the caller gets an error and the grant is undone."""
    proxy.lose_reply_to(ACQUIRE, times=9)

    with pytest.raises(BackendUnavailable, match="withdrawn"):
        locks.lock("door").acquire(timeout=5)

    assert line("door") == ([], 0)


def test_a_reply_lost_on_renew_puts_the_lease_at_risk_and_no_more(
    flavour, proxy, diary, eventually
):
    """One unanswered renewal puts the lease at risk; the next renewal makes it safe again."""
    locks = flavour.locks(proxy.url, ttl=1.2, request_timeout=0.2, on_event=diary)
    lost = proxy.lose_reply_to(RENEW)
    lock = locks.lock("door")
    lease = lock.acquire()

    eventually(lambda: "Renewed" in diary.kinds())

    assert lost.is_set()
    assert diary.kinds() == ["Acquired", "AtRisk", "SafeAgain", "Renewed"]
    lease.check()


def test_renewals_that_are_never_answered_extend_nothing(flavour, server, proxy, diary, line):
    """The server applies each renewal, but a holder that gets no reply must stop in time."""
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
    """A release that was sent while the lease was trusted is clean, whatever its repeat finds."""
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
    """A release request that was lost is repeated in the background, long before the ttl ends."""
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
    """Law 6: an acquire that arrives late, along with its withdrawal, leaves nothing behind."""
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
    """A delayed acquire whose repeat was granted and released meanwhile leaves nothing behind."""
    proxy.hold_requests(ACQUIRE)
    locks.lock("door").acquire(timeout=20).release()

    before = scripts_run()
    proxy.let_through()

    eventually(lambda: scripts_run() == before + 1)
    assert line("door") == ([], 0)


def test_a_renewal_that_comes_after_the_release_brings_nothing_back(
    locks, proxy, line, scripts_run, eventually
):
    """A renewal that arrives after the release finds no hold to renew."""
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
