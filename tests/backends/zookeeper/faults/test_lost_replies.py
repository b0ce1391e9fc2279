"""Requests whose replies are lost after the server executed them, and requests that come late."""

from __future__ import annotations

import pytest
from backends.zookeeper.sessions import session_of
from servers.zookeeper_requests import GET_CHILDREN, SYNC, Request

from lockfast import BackendUnavailable, OutcomeUnknown
from lockfast_challenge.processes import eventually

TTL = 30.0
"""A ttl longer than any test, in seconds, so that no lock ends by expiry."""


@pytest.fixture
def locks(flavour, proxy, diary):
    return flavour.locks(proxy.url, ttl=TTL, on_event=diary)


@pytest.fixture
def deletion(name):
    """Matches the request that releases the name."""
    return lambda request: request.deletes_a_claim_of(name)


def test_an_answer_lost_on_acquire_costs_a_moment(locks, proxy, door):
    """A claim whose reply was lost is found by its id: one node, one token."""
    lost = proxy.cut_reply_to(Request.creates_a_claim)

    lease = locks.lock(door.name).acquire(timeout=20)

    assert lost.is_set()
    assert door.line() == ([lease.token], 0)
    lease.release()
    assert door.line() == ([], 0)


def test_after_an_answer_lost_on_acquire_the_line_is_read_behind_a_sync(locks, proxy, door):
    """After a lost reply the line is read behind a `sync`, or the own claim might be missed.

    The claim may still be under way at another member, and a client that missed its own claim would
    wait behind that claim for ever.
    """
    seen: list[int] = []
    proxy.cut_reply_to(lambda request: bool(seen.append(request.opcode)))
    lost = proxy.cut_reply_to(Request.creates_a_claim)

    locks.lock(door.name).acquire(timeout=20)

    assert lost.is_set()
    looks = [one for one in seen if one in (SYNC, GET_CHILDREN)]
    # The first list request went out with the create, and is seen unless the connection was cut
    # between the two.
    assert looks[-3:] == [SYNC, GET_CHILDREN, GET_CHILDREN]
    assert looks[:-3] in ([], [GET_CHILDREN])


def test_a_look_whose_answer_is_lost_is_repeated(locks, proxy, door):
    """A read whose reply was lost is repeated, because it cannot have changed anything."""
    lease = locks.lock(door.name).acquire()
    lost = proxy.cut_reply_to(lambda request: request.opcode == GET_CHILDREN)

    found = locks.inspect(door.name)

    assert lost.is_set()
    assert [one.token for one in found.holders] == [lease.token]


def test_an_answer_lost_in_line_keeps_the_place(flavour, locks, proxy, door):
    """A waiter keeps the place that its first request took, although the reply was lost."""
    first = door.elsewhere()
    lease = first.acquire()
    lost = proxy.cut_reply_to(Request.creates_a_claim)

    waiter = flavour.start(locks.lock(door.name).acquire, timeout=20)
    eventually(lost.is_set, what="the answer is lost")
    door.until([lease.token], 1)
    behind = door.elsewhere()
    later = flavour.start(behind.acquire, timeout=20)
    door.until([lease.token], 2)
    lease.release()
    second = waiter.result(20)

    assert not later.done()
    assert door.line() == ([second.token], 1)
    second.release()
    assert later.result(20).token > second.token > lease.token


def test_when_no_acquire_is_answered_nothing_is_left_behind(locks, proxy, door):
    """When no create is answered, the caller gets an error and the created node is removed."""
    locks.lock("warm").acquire(timeout=20).release()
    proxy.cut_reply_to(Request.creates_a_claim, times=99)

    with pytest.raises((BackendUnavailable, OutcomeUnknown)):
        locks.lock(door.name).acquire(timeout=0)

    door.until([], 0)


def test_cut_off_right_after_its_claim_was_made_a_client_withdraws_it_when_it_is_back(
    flavour, locks, proxy, door
):
    """The client removes its node on its return; otherwise the node would keep holding the name."""
    locks.lock("warm").acquire(timeout=20).release()
    flavour.give_up_after(0.5)
    lost = proxy.cut_reply_to(Request.creates_a_claim)
    proxy.refuse_after(Request.creates_a_claim)

    with pytest.raises((BackendUnavailable, OutcomeUnknown)):
        locks.lock(door.name).acquire(timeout=0.5)
    assert lost.is_set()
    [ghost], _ = door.line()
    proxy.accept()

    door.until([], 0)
    assert locks.lock(door.name).acquire(timeout=20).token > ghost


def test_an_answer_lost_on_release_leaves_the_name_free(locks, proxy, deletion, door):
    """A release that was sent while the lease was trusted succeeds, whatever its repeat finds."""
    lock = locks.lock(door.name)
    lease = lock.acquire()
    lost = proxy.cut_reply_to(deletion)

    try:
        lease.release()
    except OutcomeUnknown:
        lease.release()

    assert lost.is_set()
    assert door.line() == ([], 0)
    assert lease.lost.reason is None


def test_a_lost_request_to_release_goes_on_in_the_background(flavour, locks, proxy, deletion, door):
    """A release request that was lost is repeated in the background, long before the ttl ends."""
    lock = locks.lock(door.name)
    lease = lock.acquire()
    flavour.give_up_after(1.0)
    held = proxy.hold_requests(deletion, times=99)

    with pytest.raises(OutcomeUnknown):
        lease.release()
    assert held.is_set()
    proxy.reset_and_let_through()

    following = door.elsewhere().acquire(timeout=20)
    assert following.token > lease.token


def test_a_release_that_went_out_is_never_told_as_not_done(flavour, locks, proxy, deletion, door):
    """A release that was sent but not answered may have been done, so its outcome is unknown."""
    lease = locks.lock(door.name).acquire()
    flavour.give_up_after(1.0)
    proxy.refuse_after(deletion)
    lost = proxy.cut_reply_to(deletion)

    with pytest.raises(OutcomeUnknown):
        lease.release()
    assert lost.is_set()

    door.until([], 0)
    proxy.accept()


def test_a_request_to_release_that_is_stuck_goes_by_another_connection(
    flavour, locks, proxy, deletion, door
):
    """A release that is stuck on one connection is repeated over another connection."""
    lock = locks.lock(door.name)
    lease = lock.acquire()
    flavour.give_up_after(1.0)
    held = proxy.hold_requests(deletion)

    try:
        lease.release()
    except OutcomeUnknown:
        lease.release()

    assert held.is_set()
    door.until([], 0)
    assert lease.lost.reason is None


def test_a_release_repeated_by_the_caller_is_clean(flavour, locks, proxy, deletion, door):
    """A release that succeeds at its repeat, after an unknown outcome, reports no loss."""
    lock = locks.lock(door.name)
    lease = lock.acquire()
    flavour.give_up_after(1.0)
    proxy.hold_requests(deletion, times=99)
    with pytest.raises(OutcomeUnknown):
        lease.release()
    proxy.let_through()

    lease.release()

    assert lease.lost.reason is None
    door.until([], 0)


def test_a_claim_that_comes_after_its_withdrawal_does_not_stay(flavour, proxy, door):
    """Law 6: a claim whose request arrives after the caller gave up leaves nothing behind."""
    locks = flavour.locks(proxy.url, ttl=TTL)
    locks.lock("warm").acquire(timeout=20).release()
    flavour.give_up_after(0.3)
    held = proxy.hold_requests(Request.creates_a_claim)
    with pytest.raises((BackendUnavailable, OutcomeUnknown)):
        locks.lock(door.name).acquire(timeout=0.3)
    assert held.is_set()

    proxy.let_through()
    flavour.give_up_after(2.0)
    after = locks.lock(door.name).acquire(timeout=20)

    assert door.line() == ([after.token], 0)


def test_a_connection_that_is_reset_costs_neither_lease_nor_place(
    flavour, server, locks, proxy, door
):
    """The session continues over a new connection, with its leases and its places in line."""
    lock = locks.lock(door.name)
    lease = lock.acquire()
    session = session_of(server, door.name)
    waiting = flavour.locks(proxy.url, ttl=TTL).lock(door.name)
    waiter = flavour.start(waiting.acquire, timeout=20)
    door.until([lease.token], 1)

    old = set(proxy._connections)
    proxy.reset()
    eventually(lambda: len(proxy._connections - old) == 2, what="both are back")
    lease.release()
    second = waiter.result(20)

    assert session_of(server, door.name) != session
    assert second.token > lease.token
    assert lease.lost.reason is None


def test_a_wake_up_that_nobody_heard_is_made_up_for(flavour, proxy, door):
    """A waiter that missed its wakeup while cut off looks again as soon as it reconnects."""
    lock = door.elsewhere()
    lease = lock.acquire()
    cut_off = flavour.locks(proxy.url, ttl=TTL).lock(door.name)
    waiter = flavour.start(cut_off.acquire, timeout=20)
    door.until([lease.token], 1)

    proxy.refuse()
    lease.release()
    proxy.accept()

    assert waiter.result(20).token > lease.token


def test_a_connection_that_is_lost_puts_the_lease_at_risk_at_once(locks, proxy, door, diary):
    """The lease is at risk long before a keep-alive is due or the ttl is over."""
    lock = locks.lock(door.name)
    lease = lock.acquire()

    proxy.refuse()
    eventually(lambda: "AtRisk" in diary.kinds(), within=3, what="it is at risk")
    proxy.accept()
    diary.time_of("SafeAgain")

    assert not lease.is_at_risk
    lease.check()
    lease.release()


def test_who_has_waited_longer_than_a_ttl_outlives_a_short_outage(scenes, server, proxy):
    """A session that only waited keeps its place through a short outage."""
    ttl = 3.0
    for one in scenes:
        one.hold(server.url, ttl=TTL)
        one.wait_behind(proxy.url, ttl=ttl)
        one.flavour.give_up_after(0.2)
    clock = scenes[0].flavour.clock
    waiting_since = clock.now()
    eventually(lambda: clock.now() > waiting_since + ttl, what="a ttl has passed")

    proxy.refuse()
    refused_since = clock.now()
    eventually(lambda: clock.now() > refused_since + 0.5, what="longer than a request may take")
    proxy.accept()
    for one in scenes:
        one.flavour.give_up_after(2.0)

    assert all(one.is_passed_on() for one in scenes)
