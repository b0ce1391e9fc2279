"""What happens to locks when the server or a connection to it fails."""

from __future__ import annotations

import pytest
from backends.memcached.claims import TTL, claim_to
from full_table import full_table

from lockfast import BackendUnavailable, LeaseLost, OutcomeUnknown
from lockfast.model import Grant
from lockfast_challenge.processes import eventually as until
from lockfast_challenge.servers.memcached import REPLY_TIMEOUT_SECONDS, MemcachedServer

RENEWED_SOON = 12.0
"""A ttl in seconds. Renewal begins after a third of it, which leaves time for a machine that
stalls."""

BRIEF = 0.5
"""Request timeout where a reply is lost on purpose, in seconds."""


def writes_held(request):
    """Return whether this request takes or renews a lock."""
    return b"\r\n1 held " in request.data


def writes_free(request):
    """Return whether this request releases or withdraws a lock other than by `add`."""
    return b"\r\n1 free " in request.data and b" ME " not in request.data


@pytest.fixture
def held(flavour, server, namespace):
    """Return a function that lists the labels of a name's holders, over a connection that works."""
    watcher = flavour.locks(server.url, namespace=namespace)
    return lambda name: [one.owner.label for one in watcher.inspect(name).holders]


@pytest.fixture
def someone(flavour, server, namespace):
    """Another client, with its own connection."""
    return flavour.locks(server.url, namespace=namespace, label="someone")


@pytest.fixture
def locks(flavour, proxy, diary, namespace, held):
    """A client behind the proxy, already connected."""
    locks = flavour.locks(
        proxy.url, namespace=namespace, ttl=TTL, on_event=diary, label="mine", request_timeout=20.0
    )
    locks.inspect("door")
    return locks


# -- the server forgets ----------------------------------------------------------------------


def test_a_restart_is_told_at_the_next_renewal(flavour, server, diary, eventually):
    """The item is lost with the server, and the holder's watchdog notices."""
    locks = flavour.locks(server.url, ttl=RENEWED_SOON, on_event=diary)
    lease = locks.lock("door").acquire()
    server.kill()
    server.start()

    eventually(lambda: diary.count("Lost") == 1, what="the holder was told")

    assert lease.lost.reason == "taken"  # the server reported the loss; it was no expiry
    with pytest.raises(LeaseLost):
        lease.check()


def test_a_server_that_stays_away_is_told_at_the_deadline(flavour, server, diary, eventually):
    """Nothing answers, so the lease is first at risk and then expires by the holder's own clock."""
    locks = flavour.locks(server.url, ttl=6.0, on_event=diary, request_timeout=0.5)
    lease = locks.lock("door").acquire()
    server.kill()

    eventually(lambda: diary.count("Lost") == 1, what="the holder was told")

    assert diary.count("AtRisk") == 1
    assert lease.lost.reason == "expired"
    server.start()


def test_flush_all_is_told_at_the_next_renewal(flavour, server, diary, eventually):
    """After a flush, the next client gets the lock at once, and the old holder is notified."""
    locks = flavour.locks(server.url, ttl=RENEWED_SOON, on_event=diary)
    lease = locks.lock("door").acquire()

    assert server.say(b"flush_all\r\n") == [b"OK\r\n"]
    successor = flavour.locks(server.url).lock("door").acquire(timeout=0)

    eventually(lambda: diary.count("Lost") == 1, what="the first was told")
    assert lease.lost.reason == "taken"
    assert successor.is_trusted
    successor.release()


def test_an_evicted_lock_is_told_and_takes_nothing_from_its_successor(backend, outliving):
    """Memory runs out in the lock's own slab class, and nothing reads the lock meanwhile.

    A read counts as a use, and other slab classes have memory of their own, so the server evicts
    the lock only in this order of events.
    """
    server = outliving.enter_context(MemcachedServer("-m", "2"))
    holder, next_one = backend(server.url), backend(server.url)
    mine = holder.call("try_acquire", claim_to("door"))
    fill(server, key_of(holder))
    assert int(server.stat("evictions")) > 0

    successor = next_one.call("try_acquire", claim_to("door"))

    assert isinstance(successor, Grant), "the lock was not evicted"
    assert [one.value for one in holder.call("renew", [mine])] == ["lost"]
    assert holder.call("release", mine, tombstone=False) is False
    assert [one.value for one in next_one.call("renew", [successor])] == ["renewed"]


def test_what_a_full_server_refuses_frees_the_name_and_its_holder_is_told(backend, outliving):
    """A server that evicts nothing (-M) removes an item if it has no room to change that item.

    The server does so whichever client asks, because memcached does not check the version in this
    case.
    """
    server = outliving.enter_context(MemcachedServer("-m", "2", "-M"))
    holder, late = backend(server.url), backend(server.url)
    assert late.call("release", late.call("try_acquire", claim_to("door")), tombstone=False)
    mine = holder.call("try_acquire", claim_to("door"))
    fill(server, key_of(holder))

    with pytest.raises(BackendUnavailable, match="frees the name"):
        late.call("try_acquire", claim_to("door"))

    assert [one.value for one in holder.call("renew", [mine])] == ["lost"]


def test_a_release_repeated_after_a_restart_frees_nobody_elses_lock(
    locks, proxy, server, held, someone
):
    """A restarted server counts versions from 1 again, so the repeat may match another's lock."""
    lease = locks.lock("door").acquire()
    lost = proxy.reset_on(writes_free)
    with pytest.raises(OutcomeUnknown):
        lease.release()
    assert lost.is_set()
    server.kill()
    server.start()
    successor = someone.lock("door").acquire(timeout=REPLY_TIMEOUT_SECONDS)

    def is_answered() -> bool:
        lease.release()
        return True

    # The first attempt may fail, if its connection has yet to notice that the old server is gone.
    until(is_answered, despite=(OutcomeUnknown,), what="the release is answered")

    assert held("door") == ["someone"]
    successor.check()
    successor.release()


# -- replies are lost ------------------------------------------------------------------------


def test_a_reply_lost_on_acquire_costs_a_moment(flavour, locks, proxy, held):
    """The repeated acquire finds its own claim in the item, which counts as a grant."""
    lost = proxy.lose_reply_to(writes_held)
    flavour.give_up_after(BRIEF)

    lease = locks.lock("door").acquire(timeout=REPLY_TIMEOUT_SECONDS)

    assert lost.is_set()
    assert held("door") == ["mine"]
    lease.release()
    assert held("door") == []


def test_when_no_acquire_is_answered_nothing_is_left_behind(flavour, locks, proxy, held):
    """The server granted the lock, but the caller gets an error, so the claim is withdrawn."""
    proxy.lose_reply_to(writes_held, times=9)
    flavour.give_up_after(BRIEF)

    with pytest.raises(BackendUnavailable, match="withdrawn"):
        locks.lock("door").acquire(timeout=5)

    assert held("door") == []


def test_a_reply_lost_on_renew_puts_the_lease_at_risk_and_no_more(
    flavour, proxy, diary, namespace, eventually
):
    """The next renewal finds its own claim under another version, and goes on from that version."""
    locks = flavour.locks(proxy.url, namespace=namespace, ttl=RENEWED_SOON, on_event=diary)
    lease = locks.lock("door").acquire()
    flavour.give_up_after(BRIEF)
    lost = proxy.lose_reply_to(writes_held)

    eventually(lost.is_set, what="a renewal was not answered")
    eventually(lambda: diary.count("Renewed") >= 1, what="the next one was")

    assert diary.count("AtRisk") == 1
    assert diary.count("Lost") == 0
    lease.release()


def test_a_reply_lost_on_release_frees_the_name(flavour, locks, proxy, held, eventually):
    """A release whose reply was lost has been carried out, and repeating it succeeds."""
    lease = locks.lock("door").acquire()
    flavour.give_up_after(BRIEF)
    lost = proxy.lose_reply_to(writes_free)

    with pytest.raises(OutcomeUnknown):
        lease.release()

    assert lost.is_set()
    eventually(lambda: held("door") == [], what="it is free")
    flavour.give_up_after(REPLY_TIMEOUT_SECONDS)
    lease.release()


# -- the server is frozen ----------------------------------------------------------------------


def test_a_frozen_server_ends_trust_in_time_and_leaves_nothing_behind(
    flavour, server, diary, eventually
):
    """The holder is notified at its deadline; the other caller gets an error, and no lock later."""
    holder = flavour.locks(server.url, ttl=1.5, on_event=diary, request_timeout=0.4)
    asking = flavour.locks(server.url, request_timeout=20.0)
    lease = holder.lock("door").acquire()
    asking.inspect("other")
    flavour.give_up_after(0.4)
    server.pause()

    with pytest.raises((OutcomeUnknown, BackendUnavailable)):
        asking.lock("other").acquire(timeout=0.5)
    eventually(lambda: diary.count("Lost") == 1, what="the holder was told")
    server.resume()

    assert lease.lost.reason == "expired"
    flavour.give_up_after(REPLY_TIMEOUT_SECONDS)
    eventually(lambda: not asking.inspect("other").holders, what="nothing is left of it")


# -- this process has no descriptors left ------------------------------------------------------


def test_that_no_connection_can_be_opened_is_an_outage(flavour, server):
    """Locks that are already held can still be released over their existing connection."""
    locks, other = flavour.locks(server.url), flavour.locks(server.url)
    lease = locks.lock("door").acquire()
    other.lock("gate").acquire().release()
    flavour.call(other._client.backend._transport.close)

    with full_table():
        with pytest.raises(BackendUnavailable):
            other.lock("gate").acquire()
        lease.release()

    assert other.lock("door").acquire(timeout=REPLY_TIMEOUT_SECONDS).is_trusted


# -- many at once ------------------------------------------------------------------------------


def test_what_is_renewed_together_goes_in_one_round_trip(backend, server):
    """All renewals share one round trip, however many there are, with one write for each lease."""
    one = backend()
    grants = [one.call("try_acquire", claim_to(f"door-{number}")) for number in range(100)]
    server.say(b"flush_all\r\n")
    kept = [one.call("try_acquire", claim_to(f"kept-{number}")) for number in range(100)]
    both = [grant for pair in zip(grants, kept, strict=True) for grant in pair]

    outcomes = one.call("renew", both)

    assert [one.value for one in outcomes] == ["lost", "renewed"] * 100


def key_of(backend) -> bytes:
    return backend.inner._key("door")


def fill(server: MemcachedServer, key: bytes) -> None:
    """Use up all memory that the server has for items as large as the item under this key."""
    value = server.say(b"mg %b v\r\n" % key)[0].split(b"\r\n")[1]
    with server.talk() as talk:
        for batch in range(20):
            keys = (b"%d" % number for number in range(batch * 1000, (batch + 1) * 1000))
            items = (
                b"ms %b %d T0 q\r\n%b\r\n" % (one.rjust(len(key), b"f"), len(value), value)
                for one in keys
            )
            talk(b"".join(items) + b"mn\r\n", ends=b"MN\r\n")
