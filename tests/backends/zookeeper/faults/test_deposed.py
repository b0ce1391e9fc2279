"""A leader that is deposed and does not know it: it goes on answering all but transactions.

One trial of each kind belongs to every run. `LOCKFAST_TRIALS=20` in the environment makes
more of them, each with a holder and somebody who waits in either flavour.
"""

from __future__ import annotations

import os
from concurrent.futures import Future

import pytest
from servers.zookeeper_requests import ZooKeeperProxy

from lockfast import BackendUnavailable, LeaseLost, OutcomeUnknown
from lockfast.backends.zookeeper import requests
from lockfast.challenge.eventually import eventually
from lockfast.challenge.servers.zookeeper import TICK, ZooKeeperServer
from lockfast.challenge.servers.zookeeper_partitions import CuttableEnsemble

TRIALS = int(os.environ.get("LOCKFAST_TRIALS", "1"))

SYNC_LIMIT = 40
"""So many ticks does a leader wait for its followers: far longer than an election and a ttl."""

TTL = 1.0
LONG = 24.0
"""A third of it outlasts an election, and that a request to the old leader is given up."""


def _trusted_together(scenes, ensemble: CuttableEnsemble, *, silently: bool, lag: float) -> int:
    """Depose the leader under those who hold, and return how many overlapped with the next.

    `lag` is how long after a renewal it happens, as a part of the ttl.
    """
    leader = ensemble.leader()
    for one in scenes:
        one.begin(leader.url, ttl=TTL, behind=_others(ensemble, leader), renewals=2)
    _pass_time(scenes, lag * TTL)

    ensemble.depose(leader, silently=silently)

    return sum(one.result(30) for one in [_overlaps(scene) for scene in scenes])


def _overlaps(scene) -> Future[bool]:
    """Look at the holder in the moment when the next one has the lock."""

    def look() -> bool:
        scene.waiter.result(30)
        return scene.lease.is_trusted

    return scene.flavour.start(look)


def _called_current(scenes, ensemble: CuttableEnsemble) -> int:
    """Depose the leader under those who hold, and return how many sequencers it calls current.

    In the moment when the next one has the lock.
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
    return sum(one.result(60) for one in looks)


def _is_current(scene, checker) -> Future[bool]:
    text = scene.lease.sequencer

    def look() -> bool:
        scene.waiter.result(30)
        try:
            return checker.is_current(text)
        except (BackendUnavailable, OutcomeUnknown):
            return False

    return scene.flavour.start(look)


def _pass_time(scenes, seconds: float) -> None:
    clock = scenes[0].flavour.clock
    begun_at = clock.now()
    eventually(lambda: clock.now() >= begun_at + seconds, what="time passes")


def _others(ensemble: CuttableEnsemble, leader: ZooKeeperServer) -> str:
    return "zookeeper://" + ",".join(one.address for one in ensemble.members if one is not leader)


@pytest.mark.parametrize("trial", range(TRIALS))
@pytest.mark.parametrize("silently", [False, True], ids=["deposed", "cut off silently"])
def test_a_leader_that_was_deposed_keeps_no_holder_in_the_dark(scenes, cuttable, silently, trial):
    """It answers reads, pings, `sync` and greetings; when the next one holds, the holder knows."""
    assert not _trusted_together(scenes, cuttable, silently=silently, lag=trial % 10 / 30)

    for one in scenes:
        with pytest.raises(LeaseLost):
            one.lease.check()
        assert one.waiter.result()[0].token > one.lease.token


def test_such_a_trial_finds_a_heartbeat_that_is_no_transaction(scenes, cuttable, monkeypatch):
    """With a `sync` instead, as it needs no majority, two trusted holders are seen."""
    monkeypatch.setattr(requests, "Confirm", requests.Sync)

    assert _trusted_together(scenes, cuttable, silently=False, lag=0.0) == len(scenes)


def test_a_leader_that_was_deposed_calls_no_sequencer_current(scenes, cuttable):
    """Whoever asks it whether a lease still holds gets no answer, rather than an old one."""
    assert not _called_current(scenes, cuttable)


def test_such_a_trial_finds_a_look_that_no_majority_confirms(scenes, cuttable, monkeypatch):
    """After a `sync` alone, the deposed one calls current what is over."""
    monkeypatch.setattr(requests, "Confirm", requests.Sync)

    assert _called_current(scenes, cuttable) == len(scenes)


def test_a_greeting_by_a_deposed_leader_gives_no_more_time(scenes, cuttable, outliving):
    """Whoever connects to it anew is welcomed, as long as it believes in itself."""
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
    """The old one is left as soon as it confirms nothing; the session goes on under the new."""
    leader = cuttable.leader()
    for one in scenes:
        one.hold(cuttable.url_from(leader), ttl=LONG, randomize_hosts=False)
        one.wait_behind(_others(cuttable, leader), ttl=60)

    cuttable.depose(leader, silently=False)
    for one in scenes:
        one.diary.until_renewed(2)

    assert SYNC_LIMIT * TICK < LONG
    assert all(one.is_passed_on() for one in scenes)
