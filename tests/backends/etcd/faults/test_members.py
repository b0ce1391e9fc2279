"""Members of a cluster are killed, frozen or restarted, in both flavours at once."""

from __future__ import annotations

from quorum_faults import QuorumFaults

from lockfast_challenge.processes import eventually
from lockfast_challenge.servers.etcd import EtcdCluster, EtcdServer

ELECTION = 10.0
"""Time to elect a new leader and follow it, in seconds, even on a busy machine."""

LONG = 30.0
"""A ttl in seconds. At least a third of it is always left, which outlasts an election."""


class TestQuorum(QuorumFaults):
    long = LONG
    short = 6.0
    election = ELECTION
    free_after = 2


def test_a_leader_that_is_frozen_costs_no_lease_with_a_long_ttl(scenes, cluster):
    """While the leader is frozen, the other members elect a new one, and all leases stay held."""
    leader = cluster.leader()
    for one in scenes:
        one.hold(cluster.url_from(leader), ttl=LONG)
        one.wait_behind(cluster.url_from(leader), ttl=LONG)

    leader.pause()
    eventually(lambda: _leads_instead(cluster, leader), what="another leads", despite=(OSError,))
    for one in scenes:
        one.diary.until_renewed()  # clients of the frozen leader have found another member

    assert all(one.is_passed_on() for one in scenes)


def test_a_request_that_is_stuck_at_a_frozen_member_is_asked_elsewhere_in_time(scenes, cluster):
    """One acquire spends half of its time on the frozen member and half on the other members."""
    leader = cluster.leader()
    locks = []
    for one in scenes:
        locks.append(one.flavour.locks(cluster.url_from(leader), ttl=60, request_timeout=16.0))
        locks[-1].lock(one.name).acquire(timeout=10).release()

    leader.pause()

    for one, client in zip(scenes, locks, strict=True):
        assert client.lock(one.name).acquire(timeout=30).is_trusted


def test_a_holder_and_the_leader_killed_together_cost_an_election_and_two_ttls(
    scenes, cluster, puppet
):
    """Law 9: a new leader restarts the full time of every lease, and the hold adds a ttl."""
    ttl = 2.0
    holders = [puppet(one.flavour.name, cluster.url, ttl=ttl) for one in scenes]
    tokens = [holder.ask("acquire", one.name) for one, holder in zip(scenes, holders, strict=True)]
    for one in scenes:
        one.wait_behind(cluster.url, ttl=2 * LONG)

    for holder in holders:
        holder.kill()
    killed_at = scenes[0].flavour.clock.now()
    cluster.leader().kill()

    for one, token in zip(scenes, tokens, strict=True):
        successor, granted_at = one.waiter.result(30)
        assert successor.token > token
        assert granted_at < killed_at + 3 * ttl + ELECTION


def _leads_instead(cluster: EtcdCluster, frozen: EtcdServer) -> bool:
    states = [one.state() for one in cluster.members if one is not frozen]
    return all(int(one.get("leader", 0)) not in (0, frozen.id) for one in states)
