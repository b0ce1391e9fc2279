"""A client that does not hold a lock can neither release it nor break it by accident."""

from __future__ import annotations

import threading

import pytest
from refusal import refusal

from lockfast import ConfigurationError, NotOwner


def test_a_second_release_is_refused_and_frees_nobody_elses_lock(store):
    """The name may belong to another holder by now."""
    lease = store.locks.lock("door").acquire()
    lease.release()
    successor = store.holder.lock("door").acquire()

    told = refusal(lease.release, NotOwner)

    assert "'door' was released before" in told
    successor.check()
    assert [one.token for one in store.locks.inspect("door").holders] == [successor.token]


def test_a_lock_object_is_not_released_more_often_than_acquired(store):
    """As with threading's locks, an extra release is an error."""
    lock = store.locks.lock("door")
    lock.acquire()
    lock.release()

    assert "'door' is not held" in refusal(lock.release, NotOwner)


def test_another_client_cannot_release(store):
    """Another client does not hold the lock, whatever it believes."""
    told = refusal(store.locks.lock("held").release, NotOwner)

    assert "'held' is not held through this object by the thread that releases it" in told
    assert "keep the lease that acquire() gives" in told
    assert store.is_unchanged()


def test_another_thread_cannot_release_through_the_lock(store):
    """The lock object is shared, but the hold is not."""
    lock = store.locks.lock("door")
    lease = lock.acquire()
    told: list[str] = []

    thread = threading.Thread(target=lambda: told.append(refusal(lock.release, NotOwner)))
    thread.start()
    thread.join()

    assert len(told) == 1
    lease.check()
    assert store.locks.inspect("door").holders[0].token == lease.token


def test_a_lease_that_was_released_can_neither_be_checked_nor_renewed(store):
    """A released lease cannot be re-entered either."""
    lease = store.locks.lock("door").acquire()
    lease.release()

    for act in (lease.check, lease.renew, lease.__enter__):
        assert "was released" in refusal(act, NotOwner)


@pytest.mark.parametrize(
    ("token", "kind", "sentence"),
    [
        (0, ConfigurationError, "token=0: 1 to"),
        (-1, ConfigurationError, "token=-1: 1 to"),
        (2**53, ConfigurationError, "1 to 9007199254740991 is accepted"),
        ("7", TypeError, "token is a whole number, not str"),
        (True, TypeError, "token is a whole number, not bool"),
    ],
)
def test_a_break_by_what_cannot_be_a_token_is_refused(store, token, kind, sentence):
    told = refusal(lambda: store.locks.break_("held", token=token), kind)

    assert sentence in told
    assert store.is_unchanged()
