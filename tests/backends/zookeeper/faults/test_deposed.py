"""A leader that is deposed without knowing it: it goes on answering all but transactions.

Every run includes one trial of each kind. `LOCKFAST_TRIALS=20` in the environment runs more of
them, each with a holder and a waiter in either flavour.
"""

from __future__ import annotations

import os
from collections.abc import Callable
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

DETECTION_TRIALS = 5
"""Maximum trials until one finds every client that lacks a defence; one is nearly always enough."""

SYNC_LIMIT = 40
"""Ticks that a leader waits for its followers: far longer than an election and a ttl."""

TTL = 1.0
LONG = 24.0
"""A ttl in seconds; a third of it outlasts an election and the timeout of a request to the old
leader."""


def _trusted_together(
    scenes, ensemble: PartitionableEnsemble, *, silently: bool, lag: float
) -> int:
    """Depose the holders' leader; return how many holders overlapped with their successors.

    `lag` is the time since a renewal, as a fraction of the ttl.
    """
    leader = ensemble.leader()
    for one in scenes:
        one.begin(leader.url, ttl=TTL, behind=_others(ensemble, leader), renewals=2)
    _pass_time(scenes, lag * TTL)

    ensemble.depose(leader, silently=silently)

    return sum(one.result(PATIENT) for one in [_overlaps(scene) for scene in scenes])


def _overlaps(scene) -> Future[bool]:
    """Return whether the holder is still trusted when its successor has the lock."""

    def look() -> bool:
        scene.waiter.result(PATIENT)
        return scene.lease.is_trusted

    return scene.flavour.start(look)


def _called_current(scenes, ensemble: PartitionableEnsemble) -> int:
    """Depose the holders' leader; return how many of their sequencers it calls current.

    The leader is asked about a sequencer when the holder's successor has the lock.
    """
    leader = ensemble.leader()
    checkers = []
    for one in scenes:
        one.begin(leader.url, ttl=TTL, behind=_others(ensemble, leader))
        checkers.append(one.flavour.locks(leader.url, ttl=60))
        assert checkers[-1].is_current(one.lease.sequencer)

    ensemble.depose(leader, silently=False)

    looks = [_is_current(*pair) for pair in zip(scenes, checkers, strict=True)]
    return sum(one.result(PATIENT) for one in looks)


def _finds_all(scenes, ensemble: PartitionableEnsemble, trial: Callable[[], int]) -> bool:
    """Return whether one of a few trials finds every scene.

    On a busy machine, an election may take longer than the old leader believes that it leads. Such
    a trial finds nothing.
    """
    for _ in range(DETECTION_TRIALS):
        if trial() == len(scenes):
            return True
        ensemble.heal()
    return False


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
    """A deposed leader still answers reads, but a holder stops before its successor holds."""
    assert not _trusted_together(scenes, cuttable, silently=silently, lag=trial % 10 / 30)

    for one in scenes:
        with pytest.raises(LeaseLost):
            one.lease.check()
        assert one.waiter.result()[0].token > one.lease.token


def test_such_a_trial_finds_a_heartbeat_that_is_no_transaction(scenes, cuttable, monkeypatch):
    """If keep-alives were a `sync`, which needs no majority, a trial would find two holders."""
    monkeypatch.setattr(requests, "Confirm", requests.Sync)

    def trial() -> int:
        return _trusted_together(scenes, cuttable, silently=False, lag=0.0)

    assert _finds_all(scenes, cuttable, trial)


def test_a_leader_that_was_deposed_calls_no_sequencer_current(scenes, cuttable):
    """A client that asks a deposed leader about a lease gets no reply, rather than an old one."""
    assert not _called_current(scenes, cuttable)


def test_such_a_trial_finds_a_look_that_no_majority_confirms(scenes, cuttable, monkeypatch):
    """If looks were confirmed by `sync` alone, a deposed leader would call a lost lease current."""
    monkeypatch.setattr(requests, "Confirm", requests.Sync)

    assert _finds_all(scenes, cuttable, lambda: _called_current(scenes, cuttable))


def test_a_greeting_by_a_deposed_leader_gives_no_more_time(scenes, cuttable, outliving):
    """A deposed leader accepts connections while it believes it leads; that extends no lease."""
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
    """A holder leaves a leader that confirms nothing; the session goes on under the new leader."""
    leader = cuttable.leader()
    for one in scenes:
        one.hold(cuttable.url_from(leader), ttl=LONG, randomize_hosts=False)
        one.wait_behind(_others(cuttable, leader), ttl=60)

    cuttable.depose(leader, silently=False)
    for one in scenes:
        one.diary.until_renewed(2)

    assert SYNC_LIMIT * TICK_SECONDS < LONG
    assert all(one.is_passed_on() for one in scenes)
