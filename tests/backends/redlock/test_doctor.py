"""What `lockfast doctor` reports on nodes: how many can be counted on, and what is wrong."""

from __future__ import annotations

import pytest
from servers.redlock import shared_nodes

from lockfast import LockError
from lockfast_challenge.processes import eventually
from lockfast_challenge.servers.redis import RedisServer, until
from lockfast_challenge.servers.redlock import RedlockNodes, url_of


@pytest.fixture
def said(flavour, namespace):
    """Return a function that runs the doctor and returns the findings on a subject."""

    def found(url: str, subject: str, **options: float):
        locks = flavour.locks(
            url, namespace=namespace, node_timeout=8.0, request_timeout=10.0, **options
        )
        return [one for one in locks.diagnose() if one.subject == subject]

    return found


def test_all_well(said, namespace):
    nodes = shared_nodes()
    nodes.found([namespace])

    [quorum] = said(nodes.url, "quorum")

    assert (quorum.level, quorum.message) == (
        "ok",
        "5 of 5 nodes can be counted on, and 3 are needed: 2 may fail",
    )
    assert {one.level for one in said(nodes.url, "replicas")} == {"ok"}


def test_nodes_that_are_dead_are_named(said, namespace):
    nodes = shared_nodes()
    nodes.found([namespace])
    dead = RedisServer().start()
    dead.kill()
    url = url_of(*nodes[:4], dead)

    [quorum] = said(url, "quorum")
    [away] = said(url, "reach")

    assert quorum.level == "warning"
    assert "4 of 5" in quorum.message
    assert dead.address in away.message
    dead.stop()


def test_nodes_that_do_not_count_yet_are_told_with_the_time_left(said, flavour, namespace):
    with RedlockNodes(3) as fresh:
        locks = flavour.locks(
            fresh.url, namespace=namespace, node_timeout=5.0, request_timeout=10.0
        )

        def are_enrolled() -> bool:
            with pytest.raises(LockError):
                locks.lock("door").acquire(timeout=0)
            return all(one.client().exists(f"{namespace}:redlock:node") for one in fresh)

        eventually(are_enrolled, what="all nodes are enrolled")
        [quorum] = said(fresh.url, "quorum")
        waiting = said(fresh.url, "quarantine")

    assert quorum.level == "error"
    assert "nothing can be locked" in quorum.message
    assert len(waiting) == 3
    assert "counts again in" in waiting[0].message


def test_nodes_that_are_not_in_use_yet_are_named_and_stay_so(said):
    """The doctor names nodes that are not in use yet, and enrols none of them."""
    with RedlockNodes(3) as fresh:
        waiting = said(fresh.url, "quarantine")
        sizes = [one.client().dbsize() for one in fresh]

    assert sizes == [0, 0, 0]
    assert len(waiting) == 3
    assert "is not in use yet" in waiting[0].message


def test_a_node_on_other_terms_is_a_finding(said, namespace):
    """A node on other terms counts as away, and the finding says how to remove the terms."""
    nodes = shared_nodes()
    nodes.found([namespace])
    with nodes[0].client() as client:
        client.hset(f"{namespace}:redlock:node", "max", 1_000_000)

    [misfit] = said(nodes.url, "nodes")
    [quorum] = said(nodes.url, "quorum")

    assert misfit.level == "warning"
    assert nodes[0].address in misfit.message
    assert f"DEL {namespace}:redlock:node" in misfit.message
    assert "4 of 5" in quorum.message


def test_a_node_with_a_replica_is_a_finding(said, namespace):
    with RedlockNodes(3) as nodes, RedisServer() as replica:
        nodes.found([namespace])
        with replica.client() as client:
            client.replicaof("127.0.0.1", nodes[0].port)
        with nodes[0].client() as client:
            until(lambda: client.info("replication")["connected_slaves"] == 1, what="it follows")

        [has, none] = said(nodes.url, "replicas")

    assert has.level == "warning"
    assert nodes[0].address in has.message
    assert none.level == "ok"


def test_a_node_that_is_a_replica_is_a_finding(said, namespace):
    """A replica cannot grant locks, so the doctor counts only the other four nodes."""
    nodes = shared_nodes()
    nodes.found([namespace])
    with RedisServer() as master, RedisServer() as replica:
        with replica.client() as client:
            client.replicaof("127.0.0.1", master.port)
            until(lambda: client.info("replication")["role"] == "slave", what="it follows")
        url = url_of(*nodes[:4], replica)

        [quorum] = said(url, "quorum")
        told = [
            one for one in (*said(url, "replicas"), *said(url, "reach")) if one.level == "error"
        ]

    assert "4 of 5" in quorum.message
    assert any(replica.address in one.message for one in told)
    assert any("replica" in one.message for one in told)


def test_an_even_number_is_a_finding(said, namespace):
    nodes = shared_nodes()
    nodes.found([namespace])

    with pytest.warns(UserWarning, match="4 node"):
        [number] = said(url_of(*nodes[:4]), "number")

    assert "an odd number" in number.remedy
