"""Both flavours survive the faults of a cluster of three masters and three replicas."""

from __future__ import annotations

import time

import pytest
from backends.redis.topologies.expectations import is_told_and_fenced
from both_flavours import FLAVOURS

from lockfast import BackendUnavailable, ConfigurationError, Locks
from lockfast.backends.redis._sync.backend import RedisBackend
from lockfast.backends.redis.routing import ROUTED_BATCH
from lockfast.model import Claim, Renewal
from lockfast.runtime.clock import Clock
from lockfast_challenge.servers.redis import until
from lockfast_challenge.servers.redis_cluster import slot_of


def test_a_failover_that_loses_the_lock_is_told_and_fenced(cluster, drivers, guarded, namespace):
    """A holder whose lock was lost in a failover learns of it, and its token is refused."""
    master = cluster.masters()[0]
    names = [cluster.name_on(master, one) for one in FLAVOURS]
    holders, others = drivers(cluster.url, ttl=12.0), drivers(cluster.url, ttl=12.0)
    for one, name in zip(holders, names, strict=True):
        one.release(one.acquire(name))
    replica = cluster.cut_off_replica(master)
    leases = [one.acquire(name) for one, name in zip(holders, names, strict=True)]
    for lease in leases:
        guarded.write(lease.name, lease.token)

    master.kill()
    replica.resume()
    until(lambda: cluster.ask(replica, "ROLE")[0] == "master", what="the replica is promoted")
    successors = [one.acquire(name) for one, name in zip(others, names, strict=True)]

    for holder, lease, successor in zip(holders, leases, successors, strict=True):
        is_told_and_fenced(holder, lease, successor, guarded)


def test_holders_and_waiters_live_through_a_failover(cluster, drivers, namespace):
    """After a failover, leases and lines continue at the promoted replica."""
    holders, waiters = drivers(cluster.url), drivers(cluster.url)
    leases = [one.acquire(f"door {one.flavour}") for one in holders]
    waiting = [one.begin_acquire(f"door {one.flavour}") for one in waiters]
    for one in holders:
        until(lambda one=one: one.waiting(f"door {one.flavour}") == 1, what="a waiter")

    for master in cluster.masters():
        cluster.fail_over(master)
    for holder, lease, future in zip(holders, leases, waiting, strict=True):
        holder.call(lease.renew)  # at the new master
        assert not future.done()
        holder.release(lease)
        assert future.result(20).token > lease.token


def test_a_slot_moves_under_held_and_waiting_locks(cluster, drivers, namespace):
    """Requests wait while a slot moves, and then holders and waiters go on at the new node."""
    slot = slot_of("door")
    other = next(f"o{i}" for i in range(999_999) if slot_of(f"o{i}") == slot)
    source = cluster.owner_of(slot)
    target = next(one for one in cluster.masters() if one is not source)
    [holder, onlooker], waiters = drivers(cluster.url, ttl=3.0), drivers(cluster.url, ttl=3.0)
    lease = holder.acquire("door")
    waiting = [one.begin_acquire("door") for one in waiters]
    until(lambda: onlooker.waiting("door") == 2, what="the waiters")

    with cluster.moving(slot, source, target) as move:
        newcomer = onlooker.begin_acquire(other)
        move()
        before = holder.renewals
        time.sleep(0.3)  # the slot stays open that long: the point of the test
        assert not newcomer.done()
    until(lambda: holder.renewals > before, what="a renewal at the other node")

    until(lambda: cluster.owner_of(slot) is target, what="all nodes know it")
    assert newcomer.result(20).is_trusted
    assert lease.is_trusted
    assert not any(one.done() for one in waiting)
    tokens = [lease.token]
    holder.release(lease)
    pairs = list(zip(waiters, waiting, strict=True))
    while pairs:
        until(lambda: any(one.done() for _, one in pairs), what="the next in line")
        [(waiter, future)] = [pair for pair in pairs if pair[1].done()]
        pairs.remove((waiter, future))
        tokens.append(future.result().token)
        waiter.release(future.result())
    assert tokens == sorted(set(tokens))


def test_what_has_moved_ahead_of_its_slot_is_followed(cluster, namespace):
    """A client follows ASK to the node that has the keys of a name but not yet its slot."""
    slot = slot_of("door")
    source = cluster.owner_of(slot)
    target = next(one for one in cluster.masters() if one is not source)
    clock = Clock()
    backend = RedisBackend(url=cluster.url, location=cluster.url, clock=clock, namespace=namespace)

    def claim(number: int, *, party: str | None = None) -> Claim:
        return Claim(f"{number:032x}", "door", f"c{number}", "owner", 1, 1, 30.0, party)

    try:
        soon = clock.now() + 5.0
        grant = backend.try_acquire(claim(1, party="somebody"), deadline=soon)
        backend.try_acquire(claim(2), deadline=soon)
        backend.withdraw(claim(3), deadline=soon, tombstone=True)
        with cluster.moving(slot, source, target) as move:
            move()
            outcomes = backend.renew([grant], deadline=soon)
            line = backend.inspect("door", deadline=soon).line
    finally:
        backend.close()

    assert outcomes == [Renewal.RENEWED]
    assert len(line) == 1


def test_a_frozen_node_delays_nobody_elses_locks(cluster, drivers, namespace):
    """While one node is frozen, leases on other nodes are renewed and their lines move on."""
    frozen, *well = cluster.masters()
    holders, waiters = drivers(cluster.url, ttl=6), drivers(cluster.url, ttl=6)
    leases, waiting = {}, {}
    for holder, waiter in zip(holders, waiters, strict=True):
        names = [cluster.name_on(one, holder.flavour) for one in well]
        stuck = cluster.name_on(frozen, holder.flavour)
        leases[holder] = [holder.acquire(name) for name in names], holder.acquire(stuck)
        waiting[holder] = waiter.begin_acquire(names[0]), waiter.begin_acquire(stuck)
        until(lambda h=holder, n=names[0]: h.waiting(n) == 1, what="a waiter")

    frozen.pause()
    try:
        before = {one: one.renewals for one in holders}
        for holder, ([first, second], _) in leases.items():
            until(lambda h=holder: h.renewals >= before[h] + 6, what="renewals")
            assert first.is_trusted
            assert second.is_trusted
            holder.release(first)
            assert waiting[holder][0].result(20).token > first.token
    finally:
        frozen.resume()


def test_a_frozen_node_delays_nobody_elses_renewals_however_many_they_are(
    cluster, drivers, namespace
):
    """Renewals of several batches reach each healthy node without waiting for a frozen one."""
    frozen, *well = cluster.masters()
    asked, leases = {}, []
    for one in drivers(cluster.url):
        names = [cluster.name_on(node, one.flavour) for node in (frozen, *well)]
        leases += [one.acquire(name) for name in names]
        stuck, *others = [lease._hold.grant for lease in leases[-3:]]
        asked[one] = [stuck, *(grant for grant in others for _ in range(ROUTED_BATCH))] * 2

    frozen.pause()
    try:
        deadline = Clock().now() + 5.0  # when the stuck renewals give up
        begun = {
            one: one.begin(one.locks._client.backend.renew, grants, deadline=deadline)
            for one, grants in asked.items()
        }
        outcomes = {one: future.result(60) for one, future in begun.items()}
    finally:
        frozen.resume()

    for one, grants in asked.items():
        stuck = grants[0]
        pairs = list(zip(grants, outcomes[one], strict=True))
        assert {outcome for grant, outcome in pairs if grant is not stuck} == {Renewal.RENEWED}
        assert {outcome for grant, outcome in pairs if grant is stuck} == {Renewal.UNKNOWN}


def test_an_inbox_that_is_cut_off_opens_again(cluster, drivers, namespace):
    """A lost inbox may open again at any node, since every node receives all messages."""

    def inboxes() -> set[str]:
        pattern = f"{namespace}:inbox:*"
        found = [cluster.ask(one, "PUBSUB", "CHANNELS", pattern) for one in cluster.servers]
        return {channel for channels in found for channel in channels}

    holders, waiters = drivers(cluster.url), drivers(cluster.url)
    leases = [one.acquire(f"door {one.flavour}") for one in holders]
    waiting = [one.begin_acquire(f"door {one.flavour}") for one in waiters]
    until(lambda: len(inboxes()) == 2, what="two inboxes")
    before = inboxes()

    for one in cluster.masters():
        cluster.ask(one, "CLIENT", "KILL", "TYPE", "pubsub")
    until(lambda: len(inboxes()) == 2 and not inboxes() & before, what="two new inboxes")
    started = time.monotonic()
    for holder, lease in zip(holders, leases, strict=True):
        holder.release(lease)

    for lease, future in zip(leases, waiting, strict=True):
        assert future.result(20).token > lease.token
    assert time.monotonic() - started < 1.5  # woken by message, not by the next heartbeat


def test_renewals_of_many_names_are_split_by_node(cluster, drivers):
    """Fifty leases whose names are spread over three nodes are all renewed."""
    for one in drivers(cluster.url, ttl=6.0):
        leases = [one.acquire(f"{one.flavour} {i}") for i in range(50)]
        wanted = one.renewals + 100

        until(lambda d=one, w=wanted: d.renewals >= w, what="two rounds of renewals")

        assert all(lease.is_trusted for lease in leases)
        assert len(one.survey(one.flavour)) == 50
        for lease in leases:
            one.release(lease)


def test_replicas_are_never_asked_for_a_name(cluster, drivers):
    """No request for a name reaches a replica, whether the request reads or writes."""
    masters = cluster.masters()
    replicas = [one for one in cluster.servers if one not in masters]
    for replica in replicas:
        cluster.ask(replica, "CONFIG", "RESETSTAT")

    for one in drivers(cluster.url):
        for i in range(20):
            lease = one.acquire(f"door {i}")
            one.call(lease.renew)
            assert one.waiting(f"door {i}") == 0
            one.release(lease)
        assert one.survey() == []

    for replica in replicas:
        with replica.client() as client:
            assert not {"cmdstat_evalsha", "cmdstat_scan"} & set(client.info("commandstats"))


def test_a_server_without_a_cluster_is_named(sentinels):
    """The error for a server without cluster mode says which URL to use instead."""
    with (
        Locks(f"redis+cluster://127.0.0.1:{sentinels.master.port}") as locks,
        pytest.raises(ConfigurationError, match="is not a cluster; use redis://"),
    ):
        locks.lock("door").acquire()


def test_a_cluster_that_cannot_be_reached_is_an_outage():
    """An unreachable cluster is reported as an outage, within one request timeout."""
    with (
        Locks("redis+cluster://127.0.0.1:1", request_timeout=0.3) as locks,
        pytest.raises(BackendUnavailable),
    ):
        locks.lock("door").acquire()
