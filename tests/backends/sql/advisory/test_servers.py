"""The server is stopped, killed, frozen: what its memory knew is gone, and the holder is told."""

from __future__ import annotations

import pytest

from holdfast import LeaseLost, LockError
from holdfast.challenge.eventually import eventually

TTL = 60.0


@pytest.mark.parametrize("ending", ["kill", "shut_down"])
def test_a_server_that_ends_takes_all_locks_with_it(store, rivals, ending):
    """Nothing was written down; the holder is told, and may take it again from the new one."""
    locks = rivals.locks(ttl=TTL)
    lease = locks.lock(rivals.name).acquire()

    (store.server.kill if ending == "kill" else store.shut_down)()

    assert lease.lost.wait(20)
    with pytest.raises(LeaseLost) as told:
        lease.release()
    assert told.value.reason == "session_ended"
    store.server.start()
    again = locks.lock(rivals.name).acquire(timeout=20)
    again.check()
    assert rivals.locks().lock(rivals.name).try_acquire() is None


def test_a_server_that_stands_still_for_less_than_a_ttl_costs_nothing(store, rivals, diary):
    """What was asked meanwhile is given up, but not the connection that carries the locks."""
    locks = rivals.locks(ttl=TTL, on_event=diary)
    lease = locks.lock(rivals.name).acquire()
    rivals.flavour.give_up_after(0.3)

    store.server.pause()
    for _ in range(2):
        with pytest.raises(LockError):
            locks.inspect("other")
    with pytest.raises(LockError):
        locks.lock("window").acquire(timeout=0.2)
    store.server.resume()
    rivals.flavour.give_up_after(10.0)

    lease.check()
    assert not rivals.is_free()
    eventually(lambda: not locks.inspect("window").holders, what="nothing is left behind")
    lease.release()
    assert rivals.is_free()
    assert diary.count("Lost") == 0


def test_a_server_that_stands_still_for_longer_costs_the_lease(store, rivals, diary):
    """The holder stops by its own clock, and what it held is free when the server runs again."""
    locks = rivals.locks(ttl=1.5, on_event=diary)
    lease = locks.lock(rivals.name).acquire()
    rivals.flavour.give_up_after(0.3)

    store.server.pause()
    assert lease.lost.wait(20)
    assert diary.time_of("AtRisk") <= diary.time_of("Lost")
    with pytest.raises(LeaseLost):
        lease.check()
    store.server.resume()
    rivals.flavour.give_up_after(10.0)

    eventually(rivals.is_free, what="it is free")


def test_closing_does_not_wait_for_a_frozen_server(store, rivals):
    locks = rivals.locks(ttl=TTL)
    lease = locks.lock(rivals.name).acquire()
    rivals.flavour.give_up_after(1.0)

    store.server.pause()
    began = rivals.flavour.clock.now()
    (locks.close if rivals.flavour.name == "sync" else locks.aclose)()
    took = rivals.flavour.clock.now() - began

    assert lease.lost.reason == "closed"
    assert took < 10.0  # as long as its ttl, if it waited for the answer
    store.server.resume()
