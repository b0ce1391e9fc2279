"""Access rights: each refusal is a clear sentence, and inspecting needs no right to write."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from servers.etcd import shared_guarded_server, shared_tls_server

from lockfast import BackendUnavailable, ConfigurationError, LeaseLost
from lockfast_challenge.processes import eventually
from lockfast_challenge.servers.certificates import certificates
from lockfast_challenge.servers.etcd import EtcdServer

TTL = 20.0


@pytest.fixture
def server():
    return shared_guarded_server()


@pytest.fixture
def clerk(flavour, server, namespace):
    """A client whose user may read and write."""
    tls = server.tls.client_options()
    return flavour.locks(server.url_of("clerk"), namespace=namespace, ttl=5, **tls)


@pytest.fixture
def guest(flavour, server, namespace):
    """A client whose user may only read."""
    tls = server.tls.client_options()
    return flavour.locks(server.url_of("guest"), namespace=namespace, ttl=5, **tls)


# -- looking -------------------------------------------------------------------------------


def test_who_may_only_read_sees_who_holds_and_who_waits(flavour, clerk, guest):
    lease = clerk.lock("door").acquire(timeout=20)
    waiting = flavour.start(clerk.lock("door", reentrant=False).acquire, timeout=20)

    eventually(lambda: guest.inspect("door").line, what="it is seen to wait")
    seen = guest.inspect("door")

    assert [one.token for one in seen.holders] == [lease.token]
    assert [one.name for one in guest.survey()] == ["door"]
    assert guest.is_current(lease.sequencer)
    lease.release()
    waiting.result(30).release()


def test_a_hold_whose_time_is_up_is_not_shown_and_needs_nobody_to_write(
    clerk, guest, server, namespace
):
    """The next client that takes the name removes the hold; a client that only looks cannot."""
    lease = clerk.lock("door").acquire(timeout=20)
    [hold] = [
        (key, record) for key, record in server.keys(f"{namespace}/n/").items() if b"/h/" in key
    ]
    lease.release()
    server.put(*(part.decode() for part in hold))  # as if its holder had failed

    assert guest.inspect("door").is_in_use  # the hold's time counts from this first look at it
    eventually(lambda: not guest.inspect("door").is_in_use, what="its time is up")

    assert dict([hold]) == server.keys(f"{namespace}/n/")


def test_who_may_only_read_is_told_so_by_the_doctor_and_by_an_acquire(guest):
    [access] = [one for one in guest.diagnose() if one.subject == "access"]

    assert access.level == "error"
    assert "readwrite" in access.remedy
    with pytest.raises(ConfigurationError, match="read and write all that begins with"):
        guest.lock("door").acquire(timeout=20)


def test_the_doctor_leaves_nothing(clerk, server, namespace):
    assert {one.level for one in clerk.diagnose() if one.subject == "access"} == {"ok"}

    assert not server.keys(namespace)


# -- a server that is full -----------------------------------------------------------------


@pytest.fixture(scope="module")
def full_server() -> Iterator[EtcdServer]:
    with EtcdServer("--quota-backend-bytes", "400000") as server:
        server.fill()
        yield server


def test_a_server_that_is_full_is_looked_at_and_diagnosed_by_who_comes_anew(flavour, full_server):
    """A full server has no space for a new session, so looking must work without a session."""
    locks = flavour.locks(full_server.url, ttl=5)

    found = {one.subject: one for one in locks.diagnose()}

    assert found["alarms"].level == "error"
    assert "NOSPACE" in found["alarms"].message
    assert locks.inspect("door").holders == ()
    assert list(locks.survey()) == []
    with pytest.raises(BackendUnavailable, match="NOSPACE"):
        locks.lock("door").acquire(timeout=20)


def test_a_lock_is_broken_on_a_server_that_is_full(flavour):
    with EtcdServer("--quota-backend-bytes", "400000") as server:
        lease = flavour.locks(server.url, ttl=20).lock("door").acquire(timeout=20)
        server.fill()

        [broken] = flavour.locks(server.url, ttl=20).break_("door")

        assert broken.token == lease.token


@pytest.fixture
def filled(flavour, outliving) -> Callable[..., tuple[EtcdServer, Any]]:
    """Return a function that fills a server while a lease is held, and returns server and lease."""

    def filled(**options: Any) -> tuple[EtcdServer, Any]:
        server = outliving.enter_context(EtcdServer("--quota-backend-bytes", "400000"))
        locks = flavour.locks(server.url, ttl=TTL, request_timeout=TTL)
        lease = locks.lock("door", **options).acquire(timeout=TTL)
        server.fill()
        return server, lease

    return filled


def test_a_min_hold_is_kept_on_a_server_that_is_full(flavour, filled):
    """The release succeeds, and the name stays closed."""
    server, lease = filled(min_hold=20 * TTL)

    lease.release()

    seen = flavour.locks(server.url, ttl=TTL, request_timeout=TTL).inspect("door")
    assert (seen.holders, bool(seen.closing)) == ((), True)


def test_a_min_hold_ends_on_a_server_that_is_full(filled):
    server, lease = filled(min_hold=2.0)

    lease.release()

    eventually(lambda: not server.keys("lockfast/n/"), what="nothing is left of it")


def test_a_lease_with_a_lock_delay_is_broken_on_a_server_that_is_full(flavour, filled):
    """The unchanged hold keeps the name closed, and the holder is notified."""
    server, lease = filled(lock_delay=4.0)
    operator = flavour.locks(server.url, ttl=TTL, request_timeout=TTL)

    [broken] = operator.break_("door")

    assert broken.token == lease.token
    seen = operator.inspect("door")
    assert (seen.holders, bool(seen.closing)) == ((), True)
    with pytest.raises(LeaseLost):
        lease.renew()


# -- authentication ------------------------------------------------------------------------


def test_a_lease_outlives_many_tokens(flavour, server, namespace):
    """If the server forgets our token between two keep-alives, we log in again and renew."""
    tls = server.tls.client_options()
    locks = flavour.locks(server.url_of("clerk"), namespace=namespace, ttl=9, **tls)
    lease = locks.lock("door").acquire(timeout=20)
    tokens: set[bytes] = set()

    def is_third() -> bool:
        transport = locks._client.backend._reading.session.transport
        tokens.update({transport._members._token} - {b""})
        return len(tokens) > 2

    eventually(is_third, what="it was told who we are three times")

    lease.check()
    lease.release()


def test_a_waiter_outlives_its_token(flavour, clerk, server, namespace):
    """A waiter is woken even if the token that opened its stream has expired."""
    other = flavour.locks(
        server.url_of("clerk"), namespace=namespace, ttl=60, **server.tls.client_options()
    )
    lease = other.lock("door").acquire(timeout=20)
    waiting = flavour.start(clerk.lock("door").acquire, timeout=60)
    eventually(lambda: other.inspect("door").line, what="it waits")
    server.ask("auth/user/changepw", name="clerk", password="sesame")

    lease.release()

    waiting.result(30).release()


@pytest.mark.parametrize("login", ["clerk:wrong", "nobody:sesame"])
def test_a_wrong_password_is_told_by_an_acquire_and_by_a_look(flavour, server, login):
    tls = server.tls.client_options()
    locks = flavour.locks(server.url.replace("://", f"://{login}@"), ttl=5, **tls)

    with pytest.raises(ConfigurationError, match="rejected this user name"):
        locks.lock("door").acquire(timeout=20)
    with pytest.raises(ConfigurationError, match="rejected this user name") as told:
        locks.inspect("door")

    assert login.partition(":")[2] not in str(told.value)


@pytest.mark.parametrize(
    ("url", "options", "words"),
    [
        ("etcd://{address}", {}, "etcds://"),
        ("etcds://{address}", {}, "tls_ca"),
        ("etcds://{address}", {"tls_ca": certificates().authority}, "tls_cert"),
    ],
)
def test_tls_on_one_side_only(flavour, url, options, words):
    locks = flavour.locks(url.format(address=shared_tls_server().address), ttl=5, **options)

    with pytest.raises((ConfigurationError, BackendUnavailable), match=words):
        locks.lock("door").acquire(timeout=0)
