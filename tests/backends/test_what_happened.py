"""A failure's message says what happened, and never "no answer in time" after an answer."""

from __future__ import annotations

import math

import pytest
from servers import etcd, memcached, redis

from lockfast import LockError
from lockfast_challenge.processes import eventually
from lockfast_challenge.servers.proxy import Proxy

PATIENCE = 60.0
SERVERS = {
    "etcd": etcd.shared_server,
    "memcached": memcached.shared_server,
    "redis": redis.shared_server,
}
IS_IN = {"etcd": b"/etcdserverpb", "memcached": b"m", "redis": b"EVALSHA"}
"""Bytes that occur in every request except those that begin a connection."""


@pytest.fixture
def proxied(outliving, scheme) -> Proxy:
    return outliving.enter_context(Proxy(SERVERS[scheme]().port, scheme=scheme))


def failure(locks) -> str:
    """Return the message of an acquire that fails."""
    with pytest.raises(LockError) as caught:
        locks.lock("door").acquire(timeout=0.01)
    return str(caught.value)


def test_a_grant_that_no_replica_confirmed_is_said_to_be_unconfirmed(flavour, namespace):
    """The store replied, so the message must not say that it did not answer."""
    url = redis.shared_server().url
    locks = flavour.locks(url, namespace=namespace, durability="replica", request_timeout=0.5)

    # Repeated: on a busy machine the first attempt may be spent on connecting.
    told = (failure(locks) for _ in range(60))
    said = next(one for one in told if "confirmed" in one and "withdrawn" in one)

    assert "no replica confirmed the grant in time (durability='replica')" in said
    assert "our claim to 'door' was withdrawn, so it can be tried again" in said
    assert "did not answer" not in said


@pytest.mark.parametrize("scheme", SERVERS)
def test_a_server_that_resets_each_request_is_not_said_to_be_silent(
    flavour, namespace, proxied, scheme
):
    locks = flavour.locks(proxied.url, namespace=namespace, request_timeout=20.0)
    locks.lock("door").acquire(timeout=PATIENCE).release()
    proxied.reset_on(IS_IN[scheme], times=math.inf)

    said = failure(locks)
    flavour.give_up_after(2.0)  # the client's goodbye is reset as well

    assert "connection" in said
    assert "in time" not in said


@pytest.mark.parametrize("scheme", SERVERS)
def test_a_server_that_worked_and_hangs_is_not_asked_whether_its_address_is_right(
    flavour, namespace, proxied
):
    locks = flavour.locks(proxied.url, namespace=namespace, request_timeout=20.0)
    locks.lock("door").acquire(timeout=PATIENCE).release()
    flavour.give_up_after(0.2)
    proxied.hold_all_replies()

    said: list[str] = []  # the first failure ends the connection, and later attempts connect again

    def is_told() -> bool:
        said.append(failure(locks))
        return len(said) >= 3 and any("answered before" in one for one in said)

    eventually(is_told, what="it is said to have answered before")
    assert not any("?" in one for one in said), said


@pytest.mark.parametrize("scheme", SERVERS)
def test_a_server_that_never_answered_is_asked_whether_its_address_is_right(
    flavour, namespace, proxied
):
    proxied.hold_all_replies()
    locks = flavour.locks(proxied.url, namespace=namespace, request_timeout=0.2)

    eventually(lambda: "is the address right" in failure(locks), what="it is asked")
