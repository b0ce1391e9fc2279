"""A session that ends while clients hold and wait, and requests that come too late."""

from __future__ import annotations

import pytest
from backends.etcd.open_sessions import session_of
from fault_scene import Scene

from lockfast import AcquireTimeout, BackendUnavailable, LeaseLost, OutcomeUnknown
from lockfast_challenge.processes import eventually
from lockfast_challenge.servers.proxy import Proxy

TTL = 2.0
LONG = 30.0


@pytest.fixture
def scene(flavour) -> Scene:
    return Scene(flavour)


def _leases(server) -> list[str]:
    return [one["ID"] for one in server.ask("lease/leases").get("leases", [])]


def test_a_session_that_is_ended_under_a_holder(scene, own_server):
    """The holder learns of the end at once; the waiter is let in after the holder's trust ends."""
    before = set(_leases(own_server))
    scene.hold(own_server.url, ttl=TTL)
    [lease] = set(_leases(own_server)) - before
    scene.wait_behind(own_server.url, ttl=LONG)

    own_server.ask("lease/revoke", ID=lease)

    lost_at = scene.diary.time_of("Lost")
    successor, granted_at = scene.waiter.result(20)
    assert scene.lease.lost.reason == "session_ended"
    assert lost_at < granted_at
    assert successor.token > scene.lease.token
    with pytest.raises(LeaseLost):
        scene.lease.release()


def test_a_session_that_is_ended_under_one_who_waits(scene, own_server):
    """A waiter whose session was ended joins again with a new session, and gets its turn."""
    scene.hold(own_server.url, ttl=LONG)
    holder = set(_leases(own_server))
    scene.wait_behind(own_server.url, ttl=LONG)

    for lease in set(_leases(own_server)) - holder:
        own_server.ask("lease/revoke", ID=lease)
    eventually(lambda: scene.waiting() == 1 and set(_leases(own_server)) - holder)

    assert scene.is_passed_on()


def test_a_server_that_is_restarted_costs_no_lease(scene, own_server):
    scene.hold(own_server.url, ttl=LONG)
    scene.wait_behind(own_server.url, ttl=LONG)

    own_server.kill()
    own_server.start()

    eventually(lambda: scene.waiting() == 1, despite=(Exception,))
    assert scene.is_passed_on()


def test_a_compaction_while_somebody_waits(scene, own_server):
    """Watches go on after a compaction, and a watch from a forgotten revision is created again."""
    scene.hold(own_server.url, ttl=LONG)
    scene.wait_behind(own_server.url, ttl=LONG)
    own_server.put("noise")
    revision = own_server.state()["header"]["revision"]

    own_server.ask("kv/compaction", revision=revision, physical=True)

    assert scene.is_passed_on()


def test_a_session_whose_opening_was_repeated_goes_on(scene, proxy):
    """If the reply to the opening is lost, the session still recognises its own key."""
    locks = scene.flavour.locks(proxy.url, ttl=LONG, request_timeout=20.0)
    met = proxy.cut_reply_to(b"lockfast/s/")
    lease = locks.lock(scene.name).acquire(timeout=20)
    transport = session_of(locks).transport

    scene.flavour.call(transport.beat, confirm=True, deadline=scene.flavour.clock.now() + 20)

    assert met.is_set()
    lease.renew()
    lease.release()


def test_a_session_is_watched_again_after_a_compaction(scene, own_server, outliving):
    """The watch is created again although its revision is gone, so the session's end is noticed."""
    proxy = outliving.enter_context(Proxy(own_server.port, scheme="etcd"))
    locks = scene.flavour.locks(proxy.url, ttl=4 * LONG, request_timeout=20.0)
    lease = locks.lock(scene.name).acquire()
    transport = session_of(locks).transport
    proxy.reset()
    eventually(
        lambda: not transport._watcher.is_watched(transport._session_gone), what="the watch is lost"
    )
    own_server.put("noise")
    revision = own_server.state()["header"]["revision"]
    own_server.ask("kv/compaction", revision=revision, physical=True)

    scene.flavour.call(transport.beat, confirm=True, deadline=scene.flavour.clock.now() + 20)
    own_server.ask("lease/revoke", ID=transport._requests.guard.lease)

    assert lease.lost.wait(LONG)  # the next keep-alive would come later than this wait allows
    assert lease.lost.reason == "session_ended"


def test_a_client_that_is_frozen_past_its_ttl_finds_that_it_has_lost(scene, own_server, puppet):
    """The next client holds; after the thaw, the frozen client's first call reports the loss."""
    holder = puppet(scene.flavour.name, own_server.url, ttl=TTL)
    token = holder.ask("acquire", scene.name)
    scene.start_waiting(own_server.url, ttl=LONG)

    holder.freeze()
    successor, _ = scene.waiter.result(30)
    holder.thaw()

    assert successor.token > token
    with pytest.raises(LeaseLost):
        holder.ask("check", scene.name)
    successor.check()
    successor.release()


@pytest.mark.parametrize("which", [b"/c/", b"/h/"])
def test_a_reply_that_is_lost_costs_no_place_and_leaves_nothing(scene, proxy, server, which):
    """A repeated acquire counts as the same request, and releasing it leaves nothing behind."""
    locks = scene.flavour.locks(proxy.url, ttl=LONG, request_timeout=20.0)
    locks.lock("other").acquire().release()
    met = proxy.cut_reply_to(which)

    lease = locks.lock(scene.name).acquire(timeout=20)

    assert met.is_set()
    lease.check()
    lease.release()
    assert not server.keys(f"lockfast/n/{scene.name}/")


@pytest.mark.parametrize("trial", range(3))
def test_a_request_that_arrives_after_its_withdrawal_changes_nothing(scene, proxy, server, trial):
    """A request that is delivered after its claim was withdrawn must not bring the claim back."""
    locks = scene.flavour.locks(proxy.url, ttl=LONG, request_timeout=5.0)
    locks.lock("other").acquire().release()
    scene.flavour.give_up_after(0.4)
    # Hold two requests: the client tries again before it gives up, and there is only this member.
    held = proxy.hold_requests(scene.name.encode(), times=2)

    with pytest.raises((OutcomeUnknown, AcquireTimeout, BackendUnavailable)):
        locks.lock(scene.name).acquire(timeout=0.3)
    assert held.is_set()
    scene.flavour.give_up_after(5.0)
    client = getattr(locks, "_inner", locks)._client
    eventually(lambda: not client.cleanup_queue._open, what="it is withdrawn")
    proxy.let_through()

    witness = scene.flavour.locks(server.url, ttl=LONG)
    witness.lock("other").acquire().release()
    assert not witness.inspect(scene.name).holders
    assert not server.keys(f"lockfast/n/{scene.name}/")
