"""The way to the server breaks: in silence, with a word, in the middle of an answer."""

from __future__ import annotations

import pytest

from holdfast import BackendUnavailable, LeaseLost
from holdfast.challenge.eventually import eventually


def test_a_silent_cut_frees_the_name_only_after_its_holder_has_stopped(store, rivals, proxy, diary):
    """Neither side hears of the other's end; each stops by its own clock, the holder first."""
    ttl = 2.0
    far = rivals.locks(store.url(proxy.address), ttl=ttl, on_event=diary)
    lease = far.lock(rivals.name).acquire()
    waiter = rivals.waiting(ttl=ttl)

    proxy.cut()
    successor = waiter.result(30)
    had_at = rivals.flavour.clock.now()

    assert not lease.is_trusted
    assert lease._hold.until < had_at
    assert lease.lost.wait(20)
    assert lease.lost.reason == "expired"
    successor.release()
    proxy.mend()


def test_a_connection_that_is_reset_is_told_at_once(store, rivals, proxy):
    far = rivals.locks(store.url(proxy.address), ttl=60.0)
    lease = far.lock(rivals.name).acquire()

    proxy.reset()

    assert lease.lost.wait(20)
    with pytest.raises(LeaseLost) as told:
        lease.release()
    assert told.value.reason == "session_ended"
    eventually(rivals.is_free, what="the server has noticed")
    far.lock(rivals.name).acquire(timeout=20).release()


def test_a_lost_answer_leaves_nothing_behind(store, rivals, proxy):
    """The server has given the lock, and nobody heard it: it goes with the connection."""
    far = rivals.locks(store.url(proxy.address), ttl=60.0)
    far.lock(f"{rivals.name} warm").acquire().release()
    word = b"pg_try_advisory_lock" if store.scheme == "postgresql" else b"GET_LOCK"
    met = proxy.cut_reply_to(word if store.scheme == "mariadb" else _any_request)

    lease = far.lock(rivals.name).acquire(timeout=30)

    assert met.is_set()
    lease.check()
    lease.release()
    eventually(rivals.is_free, what="it is free")


def _any_request(_message: object) -> bool:
    # A statement that was prepared goes by its name.
    return True


def test_an_outage_at_the_first_request_leaves_nobody_in_line(store, rivals, proxy):
    """Nobody withdraws a claim for which nothing was done; those behind it would wait for ever."""
    far = rivals.locks(store.url(proxy.address), ttl=60.0)
    proxy.refuse()
    for _ in range(2):
        with pytest.raises(BackendUnavailable):
            far.lock(rivals.name).acquire(timeout=5)

    proxy.accept()

    far.lock(rivals.name).acquire(timeout=20).release()
    backend = getattr(far, "_inner", far)._client.backend
    assert (backend._waiting, backend._carriers) == ({}, {})
