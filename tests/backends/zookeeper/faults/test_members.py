"""Members of an ensemble that are killed, frozen or restarted, under both flavours at once."""

from __future__ import annotations

import pytest
from fault_scene import Scene
from quorum_faults import SLACK, QuorumFaults

from lockfast import LeaseLost, StaleToken
from lockfast_challenge.processes import eventually
from lockfast_challenge.servers.zookeeper import SYNC_LIMIT, TICK_SECONDS, Ensemble, ZooKeeperServer

ELECTION = 10.0
"""Time to elect and follow a new leader, in seconds, even on a busy machine."""

SILENCE = SYNC_LIMIT * TICK_SECONDS
"""Seconds for which the members wait for a silent member."""

LONG = 120.0
"""A ttl in seconds; a third of it, which is always left, outlasts an election."""


class TestQuorum(QuorumFaults):
    long = LONG
    short = 6.0
    election = ELECTION


def test_a_leader_that_is_frozen_costs_no_lease_with_a_long_ttl(scenes, ensemble):
    """Leases with a long ttl survive a frozen leader, as the others elect a new leader in time."""
    leader = ensemble.leader()
    for one in scenes:
        one.hold(ensemble.url, ttl=5 * SILENCE)
        one.wait_behind(ensemble.url, ttl=5 * SILENCE)

    leader.pause()
    eventually(lambda: _leads_instead(ensemble, leader), what="another leads")
    for one in scenes:
        one.diary.until_renewed()  # clients of the old leader have found another member

    assert all(one.is_passed_on() for one in scenes)


def test_a_leader_that_is_frozen_ends_a_short_lease_before_anybody_else_gets_in(
    scenes, ensemble, guarded
):
    """A holder's own clock ends its lease before a new leader gives the lock to anybody else."""
    ttl = 0.75 * SILENCE
    leader = ensemble.leader()
    others = _url_without(ensemble, leader)
    for one in scenes:
        one.hold(ensemble.url, ttl=ttl)
        one.wait_behind(others, ttl=60)
        one.flavour.give_up_after(0.3)
        guarded.write(one.name, one.lease.token)

    leader.pause()
    frozen_at = scenes[0].flavour.clock.now()

    for one in scenes:
        successor, granted_at = one.waiter.result(20)
        guarded.write(one.name, successor.token)
        assert one.diary.time_of("AtRisk") < one.diary.time_of("Lost") < granted_at
        assert one.diary.time_of("Lost") < frozen_at + ttl + SLACK
        with pytest.raises(StaleToken):
            guarded.write(one.name, one.lease.token)
        with pytest.raises(LeaseLost):
            one.lease.release()


def test_a_holder_and_the_leader_killed_together_cost_a_ttl_and_an_election(
    scenes, ensemble, puppet
):
    """Law 9: a new leader gives every session its full time again, so that both delays add up."""
    ttl = 2.0
    holders = [puppet(one.flavour.name, ensemble.url, ttl=ttl) for one in scenes]
    tokens = [holder.ask("acquire", one.name) for one, holder in zip(scenes, holders, strict=True)]
    for one in scenes:
        one.wait_behind(ensemble.url, ttl=LONG)

    for holder in holders:
        holder.kill()
    ensemble.leader().kill()
    killed_at = scenes[0].flavour.clock.now()

    for one, token in zip(scenes, tokens, strict=True):
        successor, granted_at = one.waiter.result(20)
        assert successor.token > token
        assert granted_at - killed_at < ttl + ELECTION + SLACK


def test_one_member_is_enough_to_find_the_others(scenes, ensemble):
    """A client finds a living member even if the first member in its URL is dead."""
    dead = ensemble.followers()[0]
    dead.kill()

    for one in scenes:
        one.hold(ensemble.url_from(dead), randomize_hosts=False)

        one.lease.check()


def test_a_member_that_accepts_and_says_nothing_is_passed_over(scenes, ensemble):
    """A frozen member accepts connections, so a client tries the next member after a timeout."""
    frozen = ensemble.followers()[0]
    frozen.pause()

    for one in scenes:
        one.hold(ensemble.url_from(frozen), randomize_hosts=False)

        one.lease.check()


def test_a_member_that_falls_silent_is_left_long_before_the_ttl_is_over(scenes, ensemble):
    """A keep-alive waits two seconds for a frozen member, and not for a third of the ttl.

    A frozen member does not close its connections, so only a timeout reveals its silence.
    """
    ttl = 24.0
    silent = ensemble.followers()[0]
    for one in scenes:
        one.hold(ensemble.url_from(silent), ttl=ttl, randomize_hosts=False)

    silent.pause()
    frozen_at = scenes[0].flavour.clock.now()
    for one in scenes:
        eventually(lambda one=one: _renewed_after(one, frozen_at), what="it is renewed")
        told_at = _renewed_after(one, frozen_at)[0]

        # A keep-alive is due within one third of the ttl. Another member confirms it long before
        # the next third is over.
        assert told_at < frozen_at + 0.6 * ttl
        assert one.diary.count("Lost") == 0


def _renewed_after(scene: Scene, moment: float) -> list[float]:
    return [at for at, kind, _ in scene.diary.entries if kind == "Renewed" and at > moment]


def _leads_instead(ensemble: Ensemble, old: ZooKeeperServer) -> bool:
    return any(one.mode() == "leader" for one in ensemble.members if one is not old)


def _url_without(ensemble: Ensemble, member: ZooKeeperServer) -> str:
    return "zookeeper://" + ",".join(one.address for one in ensemble.members if one is not member)
