"""Holds whose claims are gone keep other clients out long enough, and end even with no waiter."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest
from backends.etcd.open_sessions import PATIENCE, OpenSession, session_of

from lockfast import OutcomeUnknown
from lockfast.backends.etcd.keys import grace_in
from lockfast_challenge.processes import eventually

TTL = 2.0
LONG = 30.0


def _prefix(name: str) -> str:
    """Return the prefix of all keys of a name."""
    return f"lockfast/n/{name}/"


def _kept(server, name: str) -> dict[str, dict[str, Any]]:
    """Return a name's keys as the server reports them: the claim under "c", its hold under "h"."""
    key, end = _prefix(name).encode(), _prefix(name)[:-1].encode() + b"0"
    coded = [base64.b64encode(one).decode() for one in (key, end)]
    found = server.ask("kv/range", key=coded[0], range_end=coded[1]).get("kvs", [])
    return {base64.b64decode(one["key"]).decode().split("/")[-2]: one for one in found}


def _end_session_of(locks: Any, server) -> None:
    """End a client's session, so that only its holds are left."""
    server.ask("lease/revoke", ID=session_of(locks).transport._requests.guard.lease)


def _look_once(flavour, server, name: str) -> Any:
    """Try once and close the client, like a program that does not wait."""
    one = flavour.locks(server.url, ttl=LONG)
    found = one.lock(name).try_acquire()
    _close(flavour, one)
    return found


def _close(flavour, locks: Any) -> None:
    (locks.aclose if flavour.name == "async" else locks.close)()


def test_a_hold_that_is_left_goes_although_nobody_waits_for_it(flavour, own_server, puppet, name):
    """Programs that try once and exit, such as cron jobs, must find the name free in the end."""
    holder = puppet(flavour.name, own_server.url, ttl=TTL)
    holder.ask("acquire", name)
    holder.kill()
    eventually(lambda: _kept(own_server, name).keys() == {"h"}, what="its claim is gone")

    assert _look_once(flavour, own_server, name) is None
    eventually(lambda: not _kept(own_server, name), what="the server removes it")

    assert flavour.locks(own_server.url, ttl=LONG).lock(name).try_acquire() is not None


@pytest.fixture
def left_hold(flavour, own_server, name) -> dict[str, Any]:
    """A hold without its claim, as the server reports it."""
    holder = flavour.locks(own_server.url, ttl=LONG)
    lease = holder.lock(name, lock_delay=LONG).acquire()
    _end_session_of(holder, own_server)
    assert lease.lost.wait(LONG)
    found = _kept(own_server, name)
    assert found.keys() == {"h"}
    return found["h"]


def test_a_hold_that_is_left_lasts_for_as_long_as_its_holder_may_trust_it(
    flavour, own_server, left_hold, name
):
    """A hold's time begins at the first look that finds no claim; later looks do not restart it."""
    _look_once(flavour, own_server, name)
    first = _kept(own_server, name)["h"]
    _look_once(flavour, own_server, name)
    second = _kept(own_server, name)["h"]

    left = own_server.ask("lease/timetolive", ID=first["lease"])
    assert int(left["grantedTTL"]) >= grace_in(base64.b64decode(first["value"])) > 2 * LONG
    assert first["value"] == left_hold["value"]
    assert second == first


def test_a_look_changes_nothing(flavour, own_server, left_hold, name):
    """Inspecting one name or surveying all names does not change a left hold."""
    locks = flavour.locks(own_server.url, ttl=LONG)

    assert locks.inspect(name).closing
    assert name in [one.name for one in locks.survey()]

    assert _kept(own_server, name) == {"h": left_hold}


def test_the_holds_that_many_permits_have_left_go_too(flavour, own_server, name):
    """The first look ends all the left holds, even if they do not fit into one transaction."""
    holder = flavour.locks(own_server.url, ttl=TTL)
    leases = [holder.semaphore(name, capacity=150).acquire() for _ in range(130)]
    _end_session_of(holder, own_server)
    assert leases[0].lost.wait(LONG)

    other = flavour.locks(own_server.url, ttl=LONG)
    assert other.semaphore(name, capacity=150, permits=100).try_acquire() is None
    _close(flavour, other)

    eventually(lambda: not own_server.keys(_prefix(name)), what="the server removes all")


def test_a_name_that_stays_closed_opens_although_its_client_has_gone(flavour, own_server, name):
    """The server reopens a name that was released before its min_hold or broken with lock_delay."""
    holder = flavour.locks(own_server.url, ttl=LONG)
    names = [f"{name}-{one}" for one in "ab"]
    released = holder.lock(names[0], min_hold=3.0).acquire()
    holder.lock(names[1], lock_delay=3.0).acquire()

    released.release()
    assert holder.break_(names[1])
    _close(flavour, holder)

    for one in names:
        eventually(lambda one=one: not _kept(own_server, one), what="the server removes it")


def test_a_name_stays_closed_without_its_client(flavour, own_server, name):
    """The name stays closed while its min_hold runs; the test above shows that it opens."""
    holder = flavour.locks(own_server.url, ttl=LONG)
    lease = holder.lock(name, min_hold=LONG).acquire()

    lease.release()
    _close(flavour, holder)

    assert _kept(own_server, name).keys() == {"h"}
    assert _look_once(flavour, own_server, name) is None


@pytest.mark.parametrize("times", [1, 2], ids=["once", "twice"])
def test_a_release_whose_reply_is_lost_closes_the_name_once(flavour, proxy, server, name, times):
    """When a release is repeated, by us or by the caller, the name is not closed a second time."""
    locks = flavour.locks(proxy.url, ttl=LONG, request_timeout=20.0)
    lease = locks.lock(name, min_hold=LONG).acquire()
    met = proxy.cut_reply_to(b"closed_for", times=times)

    if times == 2:
        with pytest.raises(OutcomeUnknown):
            lease.release()
    lease.release()

    assert met.is_set()
    assert _kept(server, name).keys() == {"h"}
    assert list(session_of(locks).closing)


@pytest.fixture
def session(flavour, server) -> Iterator[OpenSession]:
    one = OpenSession(flavour, server.url)
    yield one
    one.close()


def test_only_what_was_seen_is_removed(flavour, session, proxy, server, name):
    """An operator's removal spares a claim that was replaced after the operator looked."""
    operator = OpenSession(flavour, proxy.url)
    one = session.arrive(name)
    seen = one.key, one.token
    held = proxy.hold_requests(name.encode(), nth=2)  # the first such request only reads
    removing = flavour.start(operator.ask, "remove", [seen])
    assert held.wait(PATIENCE)

    session.ask("delete", one)
    one.forget_entry()
    session.ask_lines("arrive", one)
    proxy.let_through()

    assert removing.result(PATIENCE) == [False]
    assert _kept(server, name).keys() == {"c", "h"}
    assert operator.ask("remove", [(one.key, one.token)]) == [True]
    assert not _kept(server, name)
    operator.close()


def test_a_claim_that_holds_nothing_closes_nothing(session, server, name):
    """A claim that ends without a hold, for example in line, does not keep the name closed."""
    one = session.arrive(name)
    [hold] = [key for key in server.keys(_prefix(name)) if b"/h/" in key]
    server.ask("kv/deleterange", key=base64.b64encode(hold).decode())

    assert session.ask("close_for", one, LONG)

    assert not _kept(server, name)


def test_a_hold_that_goes_by_itself_admits_nobody(flavour, session, server, name):
    """A claim that comes back gets a lasting hold, not the old hold that is about to expire."""
    one = session.arrive(name)
    server.ask("kv/deleterange", key=base64.b64encode(one.key.encode()).decode())
    assert _look_once(flavour, server, name) is None
    assert "lease" in _kept(server, name)["h"]

    one.forget_entry()
    line = session.ask_lines("arrive", one)
    assert line.is_admitted
    assert session.ask_lines("admit", one, line)

    assert "lease" not in _kept(server, name)["h"]
    session.ask("delete", one)
