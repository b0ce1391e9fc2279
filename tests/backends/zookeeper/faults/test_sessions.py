"""Sessions that are ended by the server, by a dead or frozen client, or by silence."""

from __future__ import annotations

import pytest
from backends.zookeeper.sessions import end_session, session_of, sessions_of

from lockfast import LeaseLost, OutcomeUnknown, StaleToken
from lockfast_challenge.processes import eventually
from lockfast_challenge.servers.zookeeper import TICK_SECONDS

SLACK = 1.0
"""Seconds by which a notification may be late on a busy machine."""

LONG = 30.0
"""A ttl longer than any test, in seconds, so that no lock ends by expiry."""


def test_a_session_that_the_server_ended_ends_its_leases_at_once(flavour, server, guarded, door):
    """The holder is notified as soon as the server ends its session, long before the ttl ends."""
    locks = flavour.locks(server.url, ttl=LONG)
    lock = locks.lock(door.name)
    lease = lock.acquire()
    guarded.write(door.name, lease.token)

    end_session(server, session_of(server, door.name))
    assert lease.lost.wait(20)
    successor = door.elsewhere().acquire(timeout=20)
    guarded.write(door.name, successor.token)

    assert lease.lost.reason == "session_ended"
    with pytest.raises(LeaseLost):
        lease.release()
    with pytest.raises(StaleToken):
        guarded.write(door.name, lease.token)
    successor.check()


def test_a_client_whose_session_ended_has_a_new_one(flavour, server, door):
    """The same client acquires the same lock again, in a new session and with a larger token."""
    locks = flavour.locks(server.url, ttl=LONG)
    lock = locks.lock(door.name)
    lease = lock.acquire()
    before = session_of(server, door.name)
    end_session(server, before)
    assert lease.lost.wait(20)

    again = flavour.start(lock.acquire, timeout=20).result(30)

    assert again.token > lease.token
    assert session_of(server, door.name) != before
    again.release()


def test_a_look_that_meets_the_end_of_the_session_is_repeated(flavour, server, door):
    """A read changes nothing, so it is repeated in a new session."""
    locks = flavour.locks(server.url, ttl=LONG)
    lock = locks.lock(door.name)
    lease = lock.acquire()

    end_session(server, session_of(server, door.name))
    found = locks.inspect(door.name)

    assert found.holders == ()
    assert lease.lost.wait(20)


def test_a_client_that_looks_before_it_locks_has_one_session(flavour, server, door):
    """A client that looks first opens its session with the client's own ttl.

    Otherwise a second session would be needed for locks, and would end the first while others look.
    """
    opened = "zk_connection_request_count"
    before = server.figures()[opened]
    locks = flavour.locks(server.url, ttl=12.5)

    locks.inspect(door.name)
    lease = locks.lock(door.name).acquire()

    assert lease.ttl == 12.5
    assert server.figures()[opened] == before + 1


def test_who_waits_with_a_session_that_ended_joins_again(flavour, server, door):
    """A waiter loses its place with its session, and joins the line again in a new session."""
    holder = door.elsewhere(ttl=LONG)
    lease = holder.acquire()
    holding = session_of(server, door.name)
    waiting = door.elsewhere(ttl=LONG)
    waiter = flavour.start(waiting.acquire, timeout=20)
    door.until([lease.token], 1)
    [ended] = sessions_of(server, door.name) - {holding}

    end_session(server, ended)
    eventually(lambda: sessions_of(server, door.name) - {holding, ended}, what="it waits again")

    assert door.line() == ([lease.token], 1)
    assert not waiter.done()
    lease.release()
    assert waiter.result(20).token > lease.token


def test_a_killed_holder_frees_the_name_within_its_ttl(scenes, server, puppet):
    """Law 9: a killed holder's session expires, and the waiter is let in."""
    ttl = 1.6
    holders = [puppet(one.flavour.name, server.url, ttl=ttl) for one in scenes]
    tokens = [holder.ask("acquire", one.name) for one, holder in zip(scenes, holders, strict=True)]
    for one in scenes:
        one.wait_behind(server.url)

    for holder in holders:
        holder.kill()
    killed_at = scenes[0].flavour.clock.now()

    for one, token in zip(scenes, tokens, strict=True):
        successor, granted_at = one.waiter.result(20)
        assert granted_at - killed_at < ttl + TICK_SECONDS + SLACK
        assert successor.token > token


def test_a_crowd_killed_in_line_holds_up_who_is_behind_it_for_one_ttl(scenes, server, puppet):
    """Law 10: the places of a killed client end with its session, all at once."""
    ttl = 1.6
    crowds = []
    for one in scenes:
        one.hold(server.url)
        crowds.append(puppet(one.flavour.name, server.url, ttl=ttl))
        crowds[-1].ask("let_many_wait", one.name, 20)
        eventually(lambda one=one: one.waiting() == 20, what="a crowd waits")
        one.start_waiting(server.url)
        eventually(lambda one=one: one.waiting() == 21, what="one more waits")

    for crowd in crowds:
        crowd.kill()
    killed_at = scenes[0].flavour.clock.now()
    for one in scenes:
        one.lease.release()

    for one in scenes:
        successor, granted_at = one.waiter.result(20)
        assert granted_at - killed_at < ttl + TICK_SECONDS + SLACK
        assert successor.token > one.lease.token


def test_a_frozen_holder_is_told_before_its_next_call_returns(scenes, server, puppet, guarded):
    """Laws 7 and 9: the successor gets in after the ttl, and the late write is refused."""
    ttl = 1.6
    holders = [puppet(one.flavour.name, server.url, ttl=ttl) for one in scenes]
    tokens = [holder.ask("acquire", one.name) for one, holder in zip(scenes, holders, strict=True)]
    for one, token in zip(scenes, tokens, strict=True):
        guarded.write(one.name, token)

    for holder in holders:
        holder.freeze()
    frozen_at = scenes[0].flavour.clock.now()
    for one in scenes:
        one.start_waiting(server.url)
    successors = [one.waiter.result(20) for one in scenes]
    for one, (successor, _) in zip(scenes, successors, strict=True):
        guarded.write(one.name, successor.token)
    for holder in holders:
        holder.thaw()

    for one, holder, token in zip(scenes, holders, tokens, strict=True):
        with pytest.raises(LeaseLost):
            holder.ask("check", one.name)
        with pytest.raises(LeaseLost):
            holder.ask("release", one.name)
        with pytest.raises(StaleToken):
            guarded.write(one.name, token)
    for successor, granted_at in successors:
        assert granted_at - frozen_at < ttl + TICK_SECONDS + SLACK
        successor.check()
        successor.release()
    for one, holder, (successor, _) in zip(scenes, holders, successors, strict=True):
        # The holder's session is over, and its client opens a new session by itself.
        assert holder.ask("acquire", one.name, timeout=20) > successor.token


def test_a_server_restarted_with_its_data_costs_nothing(scenes, own_server):
    """The server logs its sessions, so leases and places in line survive its restart."""
    for one in scenes:
        one.hold(own_server.url, ttl=LONG)
        one.wait_behind(own_server.url, ttl=LONG)

    own_server.kill()
    own_server.start()

    for one in scenes:
        eventually(lambda one=one: one.waiting() == 1, despite=(Exception,))
    assert all(one.is_passed_on() for one in scenes)


def test_a_frozen_server_costs_the_lease_and_leaves_nothing_behind(scenes, own_server):
    """The holder loses its lease by its own clock; requests sent meanwhile are undone later."""
    ttl = 2.0
    others = []
    for one in scenes:
        one.hold(own_server.url, ttl=ttl)
        others.append(one.flavour.locks(own_server.url, ttl=LONG))
        others[-1].lock(f"{one.name} warm").acquire().release()
        one.flavour.give_up_after(0.2)

    own_server.pause()
    frozen_at = scenes[0].flavour.clock.now()
    for one, other in zip(scenes, others, strict=True):
        with pytest.raises(OutcomeUnknown):
            other.lock(f"{one.name} window").acquire(timeout=0.1)
    for one in scenes:
        assert one.lease.lost.wait(ttl + SLACK)
    own_server.resume()

    for one in scenes:
        assert one.diary.time_of("AtRisk") < one.diary.time_of("Lost") < frozen_at + ttl + SLACK
        with pytest.raises(LeaseLost):
            one.lease.release()
        watcher = one.flavour.locks(own_server.url)
        for each in (one.name, f"{one.name} window"):
            eventually(lambda n=each, w=watcher: _is_free(w, n), what=f"{each} is free")
        assert watcher.lock(one.name).acquire(timeout=20).token > one.lease.token


def _is_free(watcher, name: str) -> bool:
    found = watcher.inspect(name)
    return not found.holders and not found.line


def test_a_short_freeze_of_the_server_costs_nothing(scenes, own_server):
    """After a freeze shorter than the ttl, leases are renewed and waiters keep their places."""
    for one in scenes:
        one.hold(own_server.url, ttl=6.0)
        one.wait_behind(own_server.url, ttl=6.0)
        one.flavour.give_up_after(0.2)

    own_server.pause()
    for one in scenes:
        one.diary.time_of("AtRisk")
    own_server.resume()
    for one in scenes:
        one.diary.until_renewed()
        one.flavour.give_up_after(2.0)

    assert all(one.is_passed_on() for one in scenes)
