"""A follower that is cut off from its leader, while its clients still reach it."""

from __future__ import annotations

import pytest

from lockfast import BackendUnavailable, LeaseLost
from lockfast_challenge.processes import eventually
from lockfast_challenge.servers.zookeeper import TICK_SECONDS

SYNC_LIMIT = 30
SILENCE = SYNC_LIMIT * TICK_SECONDS
"""Seconds for which a cut-off follower waits for its leader, and still serves its clients."""

TTL = 1.6
SLACK = 1.0
"""Seconds by which a notification may be late on a busy machine."""


def test_a_follower_cut_from_its_leader_cannot_keep_a_holder_in_the_dark(scenes, cuttable):
    """A cut-off follower answers reads while its leader has given the lock to another client.

    The holder is notified before that, because the leader no longer confirms its session.
    """
    follower, leader = cuttable.followers()[0], cuttable.leader()
    for one in scenes:
        one.begin(follower.url, ttl=TTL, behind=leader.url, renewals=1)
        one.flavour.give_up_after(0.3)

    with follower.client() as bystander:
        cuttable.cut_off(follower)
        cut_at = scenes[0].flavour.clock.now()
        successors = [one.waiter.result(20) for one in scenes]
        is_still_answering = bystander.exists("/") is not None

    assert is_still_answering
    for one, (successor, granted_at) in zip(scenes, successors, strict=True):
        lost_at = one.diary.time_of("Lost")
        assert lost_at < granted_at
        assert lost_at < cut_at + TTL + SLACK
        with pytest.raises(LeaseLost):
            one.lease.check()
        assert successor.token > one.lease.token


def test_a_follower_that_is_back_gives_a_lost_lease_no_second_life(scenes, cuttable):
    """A holder whose follower was cut off returns with a new session, and has to wait in line."""
    follower, leader = cuttable.followers()[0], cuttable.leader()
    for one in scenes:
        one.hold(follower.url, ttl=TTL)
        one.wait_behind(leader.url, ttl=60)
        one.flavour.give_up_after(0.3)
    cuttable.cut_off(follower)
    successors = [one.waiter.result(20)[0] for one in scenes]

    cuttable.heal()

    for one, successor in zip(scenes, successors, strict=True):
        one.flavour.give_up_after(2.0)
        again = one.flavour.start(one.lock.acquire, timeout=20)
        watcher = one.flavour.locks(leader.url)
        eventually(
            lambda one=one, w=watcher: w.inspect(one.name).line,
            what="it waits",
            despite=(BackendUnavailable,),  # the members may have to agree first
        )
        with pytest.raises(LeaseLost):
            one.lease.check()
        successor.check()
        assert not again.done()
        successor.release()
        assert again.result(20).token > successor.token > one.lease.token
