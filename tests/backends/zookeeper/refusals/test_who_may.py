"""Access: nodes whose ACL does not let us in, wrong credentials, and right ones."""

from __future__ import annotations

import pytest
from kazoo.security import make_acl, make_digest_acl
from refusals import PASSWORD
from servers.zookeeper import shared_server

from lockfast import ConfigurationError
from lockfast_challenge.processes import eventually


@pytest.fixture
def guarded(namespace):
    """The path of our top node, which only the clerk may use."""
    clerk = make_digest_acl("clerk", PASSWORD, all=True)
    with shared_server().client() as client:
        client.create(f"/{namespace}", acl=[clerk])
    return f"/{namespace}"


@pytest.fixture
def as_clerk():
    host = shared_server().address
    return f"zookeeper://clerk:{PASSWORD}@{host}"


def test_a_node_that_we_may_not_use(refusal, namespace, guarded):
    error = refusal(shared_server().url, namespace=namespace, within=2.0)

    assert isinstance(error, ConfigurationError)
    assert guarded in str(error)


def test_a_wrong_password(refusal, namespace, guarded):
    """ZooKeeper accepts every password, but a user with a wrong password may do nothing."""
    url = f"zookeeper://clerk:wrong-{PASSWORD}@{shared_server().address}"
    error = refusal(url, namespace=namespace, within=2.0)

    assert isinstance(error, ConfigurationError)
    assert guarded in str(error)
    assert "clerk" in str(error)


def test_a_user_who_may(flavour, namespace, guarded, as_clerk):
    locks = flavour.locks(as_clerk, namespace=namespace)

    lease = locks.lock("door").acquire(timeout=20)

    lease.check()
    assert PASSWORD not in repr(locks)
    lease.release()


def test_what_a_user_makes_is_closed_to_others(flavour, refusal, namespace, as_clerk):
    """Nodes that a client with credentials creates belong to the user of those credentials."""
    lock = flavour.locks(as_clerk, namespace=namespace).lock("door")
    lease = lock.acquire(timeout=20)

    error = refusal(shared_server().url, namespace=namespace, within=2.0)

    assert isinstance(error, ConfigurationError)
    assert f"/{namespace}" in str(error)
    lease.release()


def test_a_reader_may_not_lock(refusal, namespace):
    """Where everybody may read a node but not change it, the error names the node's path."""
    owner = make_digest_acl("clerk", PASSWORD, all=True)
    everybody = make_acl("world", "anyone", read=True)
    with shared_server().client() as client:
        client.create(f"/{namespace}", acl=[owner, everybody])

    error = refusal(shared_server().url, namespace=namespace, within=2.0)

    assert isinstance(error, ConfigurationError)
    assert f"/{namespace}" in str(error)


def test_a_top_node_that_we_may_not_read_costs_no_lease(flavour, namespace):
    """A keep-alive whose read is refused is a proof too: a majority has agreed on the refusal."""
    may_join = make_acl("world", "anyone", create=True, delete=True)
    with shared_server().client() as client:
        client.create(f"/{namespace}", acl=[may_join])
    renewed: list[str] = []
    locks = flavour.locks(
        shared_server().url,
        namespace=namespace,
        ttl=4,
        on_event=lambda event: renewed.append(type(event).__name__),
    )

    lease = locks.lock("door").acquire(timeout=20)
    eventually(lambda: renewed.count("Renewed") >= 4, what="it is renewed for longer than its ttl")

    lease.check()
    lease.release()


def test_sasl_without_its_package(refusal, monkeypatch):
    """A missing package is reported at once and by name, and nothing fails in the background."""
    monkeypatch.setattr("kazoo.protocol.connection.PURESASL_AVAILABLE", False)
    login = {"mechanism": "DIGEST-MD5", "username": "clerk", "password": PASSWORD}

    error = refusal(shared_server().url, within=2.0, sasl_options=login)

    assert isinstance(error, ConfigurationError)
    assert "kazoo[sasl]" in str(error)
