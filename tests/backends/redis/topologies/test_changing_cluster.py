"""A cluster that loses nodes which keep running: cut off from their peers, or removed.

Such nodes still answer any client. Clients of both flavours must find the remaining nodes, and keep
every lease that the remaining nodes know.
"""

from __future__ import annotations

import threading

import pytest

from lockfast import LockError
from lockfast.model import Renewal
from lockfast_challenge.servers.redis import ClusterNode, until
from lockfast_challenge.servers.redis_cluster import slot_of


@pytest.fixture(params=["cut off", "removed"])
def gone(request, divided):
    """A master, and a function that takes it out of the cluster; its replica takes over."""
    [master] = divided.with_replicas()
    go = divided.cut_off if request.param == "cut off" else divided.remove
    return master, lambda: go(master)


def moved(cluster, node) -> int:
    """Return how often the node replied that a slot belongs to another node."""
    with node.client() as client:
        return client.info("errorstats").get("errorstat_MOVED", {"count": 0})["count"]


def test_leases_that_the_new_master_knows_survive(divided, drivers, gone, namespace):
    """A running client renews its lease at the new master, within a single request."""
    master, go = gone
    names = [divided.name_on(master, one) for one in ("sync", "asyncio")]
    clients = drivers(divided.url, ttl=12.0)
    leases = [one.acquire(name) for one, name in zip(clients, names, strict=True)]

    go()
    for one, lease in zip(clients, leases, strict=True):
        one.call(lease.renew)

    for one, lease in zip(clients, leases, strict=True):
        assert lease.is_trusted
        assert one.survey(lease.name) == [lease.name]
        one.release(lease)
        assert one.acquire(lease.name).token > lease.token


def test_a_subscription_leaves_a_node_that_hears_the_others_no_more(
    divided, drivers, gone, namespace
):
    """A subscription at a node that was cut off would miss the wakeups from other nodes."""
    master, go = gone
    others = [one for one in divided.servers if one is not master]

    def inboxes(servers) -> set[bytes]:
        pattern = f"{namespace}:inbox:*"
        return {each for one in servers for each in divided.ask(one, "PUBSUB", "CHANNELS", pattern)}

    healthy = next(one for one in divided.masters() if one is not master)
    holders, waiting = drivers(divided.url), []
    leases = [one.acquire(divided.name_on(healthy, one.flavour)) for one in holders]
    # Clients subscribe at a random node: start clients until one subscribes at this master.
    for flavour, lease in enumerate(leases):
        before = inboxes([master])
        while not inboxes([master]) - before:
            known = inboxes(divided.servers)
            waiter = drivers(divided.url)[flavour]
            waiting.append((waiter, waiter.begin_acquire(lease.name)))
            # Compare names: an existing inbox may close meanwhile, and open again at another node.
            until(lambda k=known: inboxes(divided.servers) - k, what="an inbox")

    go()

    until(lambda: len(inboxes(others)) == len(waiting), what="all listen elsewhere")
    for one, lease in zip(holders, leases, strict=True):
        one.release(lease)
    for waiter, future in waiting:
        waiter.release(future.result(20))


def test_a_removed_node_as_the_first_seed_misleads_nobody(cluster, drivers, namespace):
    """A removed node that is named first in the URL serves no slots, so other nodes are asked."""
    with ClusterNode() as removed:
        url = f"redis+cluster://127.0.0.1:{removed.port}," + cluster.url.partition("//")[2]
        for one in drivers(url):
            lease = one.acquire(one.flavour)

            assert one.survey() == [one.flavour]
            findings = one.call(one.locks.diagnose)
            assert any(found.message.startswith("all 3 masters") for found in findings)
            one.release(lease)


def test_nodes_that_know_of_no_slot_are_named_as_what_they_are(drivers):
    """A client that reaches only removed nodes gets an error that says so, not an empty answer."""
    with ClusterNode() as removed:
        for one in drivers(f"redis+cluster://127.0.0.1:{removed.port}", request_timeout=5.0):
            with pytest.raises(LockError, match="was it removed from the cluster"):
                one.acquire("door")
            with pytest.raises(LockError, match="was it removed from the cluster"):
                one.survey()
            with pytest.raises(LockError, match="was it removed from the cluster"):
                one.call(one.locks.diagnose)


def test_a_slot_that_has_moved_is_learned_from_the_first_request(cluster, drivers, namespace):
    """One MOVED reply is enough: every later request goes straight to the new node."""
    slot = slot_of("door")
    source = cluster.owner_of(slot)
    target = next(one for one in cluster.masters() if one is not source)
    clients = drivers(cluster.url)
    for one in clients:
        one.release(one.acquire("door"))
    with cluster.moving(slot, source, target):
        pass

    for one in clients:
        before = moved(cluster, source)
        for _ in range(10):
            one.release(one.acquire("door"))
        assert moved(cluster, source) - before == 1


@pytest.mark.usefixtures("no_failover")
def test_releases_that_one_node_does_not_answer_delay_no_other_node(cluster, drivers, namespace):
    """Releases are retried for each node separately, so a silent node delays no other node."""
    silent, back, _ = cluster.masters()
    [onlooker, _], clients = drivers(cluster.url), drivers(cluster.url, request_timeout=1.0)
    for one in clients:
        names = [cluster.name_on(silent, f"{one.flavour} {i}") for i in range(10)]
        stuck = [one.acquire(name, ttl=60.0) for name in names]
        last = one.acquire(cluster.name_on(back, one.flavour), ttl=60.0)
        silent.pause()
        back.pause()
        try:
            for future in [one.begin(lease.release) for lease in (*stuck, last)]:
                with pytest.raises(LockError):
                    future.result(20)
            back.resume()
            until(
                lambda n=last.name: not onlooker.call(onlooker.locks.inspect, n).holders,
                within=6.0,
                what="the name at the node that is back is free",
            )
        finally:
            silent.resume()
            back.resume()


def test_without_a_thread_to_be_had_the_nodes_are_asked_one_by_one(cluster, drivers, monkeypatch):
    """Leases on three nodes are still renewed in one call when no thread can be started."""
    [one, _] = drivers(cluster.url)
    names = [cluster.name_on(node, "door") for node in cluster.masters()]
    grants = [one.acquire(name)._hold.grant for name in names]
    renew, deadline = one.locks._client.backend.renew, one.locks._client.request_deadline()

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr("lockfast.runtime.gather.threading.Thread.start", refuse)
        outcomes = renew(grants, deadline=deadline)

    assert outcomes == [Renewal.RENEWED] * 3
