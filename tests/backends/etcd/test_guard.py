"""A transaction of the application in the same etcd takes effect only while a lease is held."""

from __future__ import annotations

import base64
import itertools

import pytest
from backends.etcd.open_sessions import session_of

from lockfast import ConfigurationError, LeaseLost, NotOwner, RevisionGuard

LONG = 30.0


@pytest.fixture
def write(server, namespace):
    """Return a function that writes through a foreign client if a guard's condition is true."""
    values = itertools.count()

    def write(guard: RevisionGuard) -> bool:
        condition = {
            "key": _coded(guard.key),
            "target": "CREATE",
            "result": "EQUAL",
            "create_revision": guard.create_revision,
        }
        value = f"{next(values)}"
        put = {"request_put": {"key": _coded(namespace.encode()), "value": _coded(value.encode())}}
        done = server.ask("kv/txn", compare=[condition], success=[put]).get("succeeded", False)
        assert (server.keys(namespace) == {namespace.encode(): value.encode()}) == done
        return done

    return write


def _coded(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.fixture
def lease(flavour, server, name):
    return flavour.locks(server.url, ttl=LONG).lock(name).acquire()


def test_it_is_done_while_the_lease_holds(lease, write):
    guard = lease.guard()

    assert guard == (guard.key, lease.token)
    assert write(guard)
    lease.renew()
    assert write(guard)


def test_it_is_refused_once_the_lease_was_released(flavour, server, lease, name, write):
    """The old guard stays refused while the next client holds the lock with a guard of its own."""
    guard = lease.guard()

    lease.release()

    assert not write(guard)
    successor = flavour.locks(server.url, ttl=LONG).lock(name).acquire()
    assert not write(guard)
    assert write(successor.guard())
    with pytest.raises(NotOwner):
        lease.guard()


def test_it_is_refused_once_the_lease_was_lost(flavour, server, name, write):
    """The write is refused even though nobody else holds the lock yet."""
    locks = flavour.locks(server.url, ttl=LONG)
    lease = locks.lock(name).acquire()
    guard = lease.guard()

    server.ask("lease/revoke", ID=session_of(locks).transport._requests.guard.lease)

    assert not write(guard)
    assert lease.lost.wait(LONG)
    with pytest.raises(LeaseLost):
        lease.guard()


def test_it_is_refused_once_the_lease_was_broken(flavour, server, lease, name, write):
    guard = lease.guard()

    assert flavour.locks(server.url, ttl=LONG).break_(name)

    assert not write(guard)


def test_it_is_refused_while_the_name_stays_closed(flavour, server, name, write):
    """After the release nobody holds the name, although its min_hold still keeps it closed."""
    lease = flavour.locks(server.url, ttl=LONG).lock(name, min_hold=LONG).acquire()
    guard = lease.guard()

    lease.release()

    assert not write(guard)


def test_another_backend_says_who_can(flavour):
    lease = flavour.locks("memory://").lock("door").acquire()

    with pytest.raises(ConfigurationError, match="etcd can"):
        lease.guard()

    lease.check()
