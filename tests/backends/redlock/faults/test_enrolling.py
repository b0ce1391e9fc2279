"""A client on other terms, or a client that only looks, must not set up a node."""

from __future__ import annotations

import pytest

from lockfast import BackendUnavailable, ConfigurationError, OutcomeUnknown
from lockfast_challenge.processes import eventually
from lockfast_challenge.servers.redis import RedisServer
from lockfast_challenge.servers.redlock import RedlockNodes, url_of

WRONG = {
    "max_ttl": {"max_ttl": 40.0, "ttl": 30.0},  # a ttl above max_ttl is refused anyway
    "durable": {"durable": True},
    "nodes": {},
}
"""The options of clients that differ from the others in one term."""


@pytest.mark.usefixtures("long_leases")
@pytest.mark.parametrize("harm", ["flush", "restart"])
def test_a_misfit_client_enrols_no_node_that_was_emptied(opened, nodes, namespace, name, harm):
    """A client on the wrong terms never sets up an emptied node, not even in the background."""
    right = opened()
    right.lock(name).acquire().release()
    wrong = [
        opened(*(nodes[:3] if term == "nodes" else nodes), **options)
        for term, options in WRONG.items()
    ]
    for one in wrong:
        is_refused(one, name)

    if harm == "flush":
        with nodes[2].client() as client:
            client.flushall()
    else:
        nodes[2].kill()
        nodes[2].start()
    for _ in range(2):
        for one in wrong:
            is_refused(one, name)

    def is_enrolled_again() -> bool:
        # One acquire may not be enough: it can succeed on the other nodes before this node replies.
        right.lock(name).acquire(timeout=20).release()
        return _terms(nodes[2], namespace) == _terms(nodes[0], namespace)

    eventually(is_enrolled_again, what="the node is enrolled on the right terms")


def is_refused(locks, name: str) -> None:
    """Check that the client is refused for its terms, after any timeouts of a busy machine."""

    def is_told() -> bool:
        with pytest.raises(ConfigurationError, match="correct this client"):
            locks.lock(name).acquire(timeout=0)
        return True

    eventually(is_told, despite=(BackendUnavailable, OutcomeUnknown))


def _terms(node, namespace: str) -> list[bytes | None]:
    with node.client() as client:
        return client.hmget(f"{namespace}:redlock:node", "max", "nodes", "durable")


@pytest.mark.usefixtures("long_leases")
def test_a_node_that_a_misfit_has_enrolled_counts_as_away(opened, nodes, namespace, name):
    """A node on other terms is ignored, and the four nodes that agree are enough for a lock."""
    opened().lock(name).acquire().release()
    with nodes[2].client() as client:
        client.hset(f"{namespace}:redlock:node", "max", 1_000_000)

    assert opened().lock(name).acquire(timeout=20) is not None


def test_who_only_looks_writes_nothing(flavour):
    """`lockfast ls` with a typo in its URL must not set up the nodes that it reaches."""
    with RedlockNodes(3, kind=RedisServer) as fresh:
        for url in (fresh.url, url_of(*fresh[:3])):
            locks = flavour.locks(url, node_timeout=5.0, request_timeout=10.0)
            assert list(locks.survey()) == []
            assert not locks.inspect("door").is_in_use
            assert not locks.lock("door").locked()
            assert locks.diagnose()
        sizes = [one.client().dbsize() for one in fresh]

    assert sizes == [0, 0, 0]


def test_who_looks_at_a_restarted_node_does_not_let_it_pass_for_the_old_one(
    flavour, nodes, namespace, opened, name
):
    """A client that only looks does not reload the scripts by which a node is identified.

    With the scripts reloaded, a restarted node would pass for the old one, and other clients would
    rely on locks that the node has lost.
    """
    first = opened()
    first.lock(name).acquire().release()
    (first.close if flavour.name == "sync" else first.aclose)()  # it would reload the scripts
    with nodes[0].client() as client:
        client.config_set("appendonly", "no")
        before = client.hgetall(f"{namespace}:redlock:node")
    nodes[0].kill()
    nodes[0].start()
    with nodes[0].client() as client:
        client.hset(f"{namespace}:redlock:node", mapping=before)

    assert not opened().inspect(name).is_in_use

    with nodes[0].client() as client:
        assert client.hgetall(f"{namespace}:redlock:node") == before
        assert client.info("memory")["number_of_cached_scripts"] <= 1
