"""A leader that is deposed without knowing it: it goes on answering all but transactions.

Every run includes one trial of each kind. `LOCKFAST_TRIALS=20` in the environment runs more of
them, each with a holder and a waiter in either flavour.
"""

from __future__ import annotations

import os
from concurrent.futures import Future

import pytest
from fault_scene import PATIENT
from servers.zookeeper_requests import ZooKeeperProxy

from lockfast import BackendUnavailable, LeaseLost, OutcomeUnknown
from lockfast.backends.zookeeper import requests
from lockfast_challenge.processes import eventually
from lockfast_challenge.servers.zookeeper import (
    TICK_SECONDS,
    PartitionableEnsemble,
    ZooKeeperServer,
)

# An election among JVMs may take a minute on a busy machine.
pytestmark = pytest.mark.timeout(400)

TRIALS = int(os.environ.get("LOCKFAST_TRIALS", "1"))

SYNC_LIMIT = 40
"""Ticks that a leader waits for its followers: far longer than an election and a ttl."""

TTL = 1.0
LONG = 24.0
"""A ttl in seconds; a third of it outlasts an election and the timeout of a request to the old
leader."""


def _trusted_together(
    scenes, ensemble: PartitionableEnsemble, *, silently: bool, lag: float
) -> int:
    """Depose the leader of the holders, and return how many of them overlapped with the next.

    `lag` is the time since a renewal, as a fraction of the ttl.
    """
    leader = ensemble.leader()
    for one in scenes:
        one.begin(leader.url, ttl=TTL, behind=_others(ensemble, leader), renewals=2)
    _pass_time(scenes, lag * TTL)

    ensemble.depose(leader, silently=silently)

    return sum(one.result(PATIENT) for one in [_overlaps(scene) for scene in scenes])


def _overlaps(scene) -> Future[bool]:
    """Return whether the holder is still trusted when the next one has the lock."""

    def look() -> bool:
        scene.waiter.result(PATIENT)
        return scene.lease.is_trusted

    return scene.flavour.start(look)


def _called_current(scenes, ensemble: PartitionableEnsemble) -> int:
    """Depose the leader of the holders, and return how many sequencers it calls current.

    It is asked when the next one has the lock.
    """
    leader = ensemble.leader()
    checkers = []
    for one in scenes:
        one.hold(leader.url, ttl=TTL)
        one.wait_behind(_others(ensemble, leader), ttl=60)
        checkers.append(one.flavour.locks(leader.url, ttl=60))
        assert checkers[-1].is_current(one.lease.sequencer)

    ensemble.depose(leader, silently=False)

    looks = [_is_current(*pair) for pair in zip(scenes, checkers, strict=True)]
    return sum(one.result(PATIENT) for one in looks)


def _is_current(scene, checker) -> Future[bool]:
    text = scene.lease.sequencer

    def look() -> bool:
        scene.waiter.result(PATIENT)
        try:
            return checker.is_current(text)
        except (BackendUnavailable, OutcomeUnknown):
            return False

    return scene.flavour.start(look)


def _pass_time(scenes, seconds: float) -> None:
    clock = scenes[0].flavour.clock
    begun_at = clock.now()
    eventually(lambda: clock.now() >= begun_at + seconds, what="time passes")


def _others(ensemble: PartitionableEnsemble, leader: ZooKeeperServer) -> str:
    return "zookeeper://" + ",".join(one.address for one in ensemble.members if one is not leader)


@pytest.mark.parametrize("trial", range(TRIALS))
@pytest.mark.parametrize("silently", [False, True], ids=["deposed", "cut off silently"])
def test_a_leader_that_was_deposed_keeps_no_holder_in_the_dark(scenes, cuttable, silently, trial):
    """It answers reads, pings, `sync` and handshakes; the holder stops before the next holds."""
    assert not _trusted_together(scenes, cuttable, silently=silently, lag=trial % 10 / 30)

    for one in scenes:
        with pytest.raises(LeaseLost):
            one.lease.check()
        assert one.waiter.result()[0].token > one.lease.token


def test_such_a_trial_finds_a_heartbeat_that_is_no_transaction(scenes, cuttable, monkeypatch):
    """With a `sync` instead, which needs no majority, two trusted holders are seen."""
    monkeypatch.setattr(requests, "Confirm", requests.Sync)

    assert _trusted_together(scenes, cuttable, silently=False, lag=0.0) == len(scenes)


def test_a_leader_that_was_deposed_calls_no_sequencer_current(scenes, cuttable):
    """A client that asks it whether a lease still holds gets no reply, rather than an old one."""
    assert not _called_current(scenes, cuttable)


def test_such_a_trial_finds_a_look_that_no_majority_confirms(scenes, cuttable, monkeypatch):
    """After a `sync` alone, the deposed leader calls a lease current that is over."""
    monkeypatch.setattr(requests, "Confirm", requests.Sync)

    assert _called_current(scenes, cuttable) == len(scenes)


def test_a_greeting_by_a_deposed_leader_gives_no_more_time(scenes, cuttable, outliving):
    """It welcomes new connections for as long as it believes that it leads."""
    leader = cuttable.leader()
    proxy = outliving.enter_context(ZooKeeperProxy(leader.port))
    for one in scenes:
        one.begin(proxy.url, ttl=TTL, behind=_others(cuttable, leader), renewals=2)

    cuttable.depose(leader, silently=False)
    looks = [_overlaps(one) for one in scenes]
    while not all(one.done() for one in looks):
        proxy.reset()
        _pass_time(scenes, 0.2)

    assert not any(one.result() for one in looks)


def test_a_holder_that_reaches_the_new_leader_too_keeps_its_lease(scenes, cuttable):
    """The old leader is left once it confirms nothing; the session goes on under the new one."""
    leader = cuttable.leader()
    for one in scenes:
        one.hold(cuttable.url_from(leader), ttl=LONG, randomize_hosts=False)
        one.wait_behind(_others(cuttable, leader), ttl=60)

    cuttable.depose(leader, silently=False)
    for one in scenes:
        one.diary.until_renewed(2)

    assert SYNC_LIMIT * TICK_SECONDS < LONG
    assert all(one.is_passed_on() for one in scenes)
