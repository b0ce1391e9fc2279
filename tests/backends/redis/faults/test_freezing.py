"""Holders that are frozen while they hold a lock, and servers that are frozen."""

from __future__ import annotations

import pytest

from lockfast import LeaseLost, LockError, OutcomeUnknown, StaleToken

SLACK = 1.0
"""Allowed delay on a busy machine, in seconds; less than the time to the next heartbeat."""


def test_a_frozen_holder_is_told_before_its_next_call_returns(
    flavour, server, puppet, guarded, line
):
    """Laws 7 and 9: the successor gets in after the ttl, and the late write is refused."""
    holder = puppet(flavour.name, server.url, ttl=0.5)
    token = holder.ask("acquire", "door")
    guarded.write("door", token)

    holder.freeze()
    asked_at = flavour.clock.now()
    successor = flavour.locks(server.url).lock("door").acquire(timeout=20)
    waited = flavour.clock.now() - asked_at
    guarded.write("door", successor.token)
    holder.thaw()

    with pytest.raises(LeaseLost) as told:
        holder.ask("check", "door")
    assert told.value.reason == "expired"
    with pytest.raises(LeaseLost):
        holder.ask("release", "door")
    with pytest.raises(StaleToken):
        guarded.write("door", token)
    assert waited < 0.5 + SLACK
    successor.check()
    assert line("door") == ([successor.token], 0)


def test_a_frozen_server_costs_the_lease_and_leaves_nothing_behind(
    flavour, server, diary, line, eventually
):
    """The holder loses its lease by its own clock; requests sent meanwhile are undone later."""
    locks = flavour.locks(server.url, ttl=0.9, request_timeout=0.2, on_event=diary)
    lock = locks.lock("door")
    lease = lock.acquire()
    hurried = flavour.locks(server.url, request_timeout=0.2)
    hurried.lock("warm").acquire().release()

    server.pause()
    with pytest.raises(OutcomeUnknown):
        hurried.lock("window", ttl=60).acquire(timeout=0.1)
    assert lease.lost.wait(5)

    assert lease.lost.reason == "expired"
    assert diary.time_of("AtRisk") < diary.time_of("Lost") <= lease._hold.until + SLACK
    assert diary.kinds()[-2:] == ["AtRisk", "Lost"]
    with pytest.raises(LeaseLost):
        lease.release()
    server.resume()
    for one in (hurried, locks):
        eventually(lambda one=one: one._client.cleanup_queue.are_done)
    assert line("window") == ([], 0)
    assert line("door") == ([], 0)
    patient = flavour.locks(server.url)
    assert patient.lock("window").acquire(timeout=0).token > 0
    assert patient.lock("door").acquire(timeout=0).token > lease.token


def test_a_short_freeze_of_the_server_costs_nothing(flavour, server, diary, eventually):
    """After a freeze shorter than the ttl, leases are renewed and waiters keep their places."""
    locks = flavour.locks(server.url, ttl=1.5, request_timeout=0.2, on_event=diary)
    lock = locks.lock("door")
    lease = lock.acquire()
    waiting = flavour.locks(server.url).lock("door")
    waiter = flavour.start(waiting.acquire, timeout=20)
    eventually(lambda: locks.inspect("door").line)

    server.pause()
    eventually(lambda: "AtRisk" in diary.kinds())
    server.resume()
    eventually(lambda: diary.kinds()[-1] == "Renewed")

    lease.check()
    assert not waiter.done()
    lease.release()
    assert waiter.result(20).token > lease.token


def test_closing_waits_once_for_a_frozen_server(flavour, server, eventually):
    """Closing withdraws waiters, releases holds and closes the listener within one timeout."""
    locks, other = flavour.locks(server.url, request_timeout=1.5), flavour.locks(server.url)
    other.lock("door").acquire()
    mine = locks.lock("mine").acquire()
    asked = server.calls()
    waiter = flavour.start(locks.lock("door").acquire, timeout=20)
    eventually(lambda: server.calls() == asked + 2)  # the waiter asks again once it listens

    server.pause()
    asked_at = flavour.clock.now()
    try:
        (locks.close if flavour.name == "sync" else locks.aclose)()
        waited = flavour.clock.now() - asked_at
    finally:
        server.resume()

    assert waited < 1.5 + SLACK
    assert mine.lost.reason == "closed"
    with pytest.raises(LockError):
        waiter.result(5)
