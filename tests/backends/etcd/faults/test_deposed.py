"""A leader that is deposed and does not know it, or comes back after it was frozen.

It renews leases that its successor ends, and revokes leases that its successor has renewed. One
trial of each kind belongs to every run. `HOLDFAST_TRIALS=20` in the environment makes more of them.
"""

from __future__ import annotations

import os
from concurrent.futures import Future
from typing import Any

import pytest
from eventually import eventually
from servers.etcd import EtcdServer
from servers.etcd_partitions import CuttableCluster

from holdfast.backends.etcd import records, requests
from holdfast.backends.etcd._async.wire import AsyncEtcdWire
from holdfast.backends.etcd._sync.wire import EtcdWire

TRIALS = int(os.environ.get("HOLDFAST_TRIALS", "1"))

TTL = 3.0
LEASES = 10
"""So many beside it are renewed in each flavour: one alone rarely meets what revokes it."""

FREE = 60.0
"""Within this the next one holds: an election, two ttls, and whatever a busy machine adds."""


@pytest.fixture
def crowd(scenes):
    """Open clients at a URL that renew leases of their own, until the test ends."""
    opened: list[Any] = []

    def open_at(url: str) -> None:
        for scene in scenes:
            for number in range(LEASES):
                locks = scene.flavour.locks(url, ttl=TTL)
                opened.append(locks.lock(f"{scene.name}-{number}").acquire())

    return open_at


def _stand(scenes, cluster: CuttableCluster, crowd) -> EtcdServer:
    """Let one hold who is attached to the leader alone, and one wait who is not."""
    leader = cluster.leader()
    crowd(leader.url)
    for one in scenes:
        one.hold(leader.url, ttl=TTL)
        one.wait_behind(_others(cluster, leader), ttl=60)
        one.diary.until_renewed()
    return leader


def _others(cluster: CuttableCluster, leader: EtcdServer) -> str:
    return "etcd://" + ",".join(one.address for one in cluster.members if one is not leader)


def _overlaps(scene) -> Future[bool]:
    """Look at the holder in the moment when the next one has the lock."""

    def look() -> bool:
        scene.waiter.result(FREE)
        return scene.lease.is_trusted

    return scene.flavour.start(look)


def _pass_time(scenes, seconds: float) -> None:
    clock = scenes[0].flavour.clock
    begun_at = clock.now()
    eventually(lambda: clock.now() >= begun_at + seconds, what="time passes")


def _number_of_overlaps(scenes) -> int:
    return sum(one.result(FREE) for one in [_overlaps(scene) for scene in scenes])


def _cut(scenes, cluster: CuttableCluster, crowd, *, silently: bool) -> int:
    leader = _stand(scenes, cluster, crowd)

    cluster.cut_off(leader, silently=silently)

    return _number_of_overlaps(scenes)


def _freeze_and_cut(scenes, cluster: CuttableCluster, crowd) -> int:
    """Freeze it until another leads, for less than the ttl, and cut it off before it goes on."""
    leader = _stand(scenes, cluster, crowd)

    leader.pause()
    cluster.cut_off(leader, silently=True)
    _pass_time(scenes, 0.6 * TTL)
    leader.resume()

    return _number_of_overlaps(scenes)


def _freeze_for_long(scenes, cluster: CuttableCluster, crowd) -> int:
    """Freeze it for longer than the ttl, while all others renew, and let it come back."""
    leader = cluster.leader()
    crowd(_others(cluster, leader))
    for one in scenes:
        one.hold(_others(cluster, leader), ttl=TTL)
        one.wait_behind(_others(cluster, leader), ttl=60)

    leader.pause()
    _pass_time(scenes, 1.7 * TTL)
    looks = [_overlaps(scene) for scene in scenes]
    leader.resume()
    _pass_time(scenes, 2.5 * TTL)
    for one in scenes:
        if one.lease.is_trusted:
            one.lease.release()  # it was not revoked
            one.diary.time_of("Released")

    return sum(
        look.result(FREE)
        for look, one in zip(looks, scenes, strict=True)
        if one.diary.count("Lost")
    )


@pytest.mark.timeout(150)  # an election, two ttls, and a cluster that has to heal
@pytest.mark.parametrize("trial", range(TRIALS))
@pytest.mark.parametrize("silently", [False, True], ids=["reset", "silently"])
def test_a_leader_that_is_cut_off_keeps_no_holder_in_the_dark(
    scenes, cuttable, crowd, silently, trial
):
    """It renews leases for a while; when the next one holds, the holder knows."""
    assert not _cut(scenes, cuttable, crowd, silently=silently)

    for one in scenes:
        assert one.waiter.result()[0].token > one.lease.token


@pytest.mark.timeout(150)
@pytest.mark.parametrize("trial", range(TRIALS))
def test_a_leader_that_was_frozen_and_is_cut_off_keeps_no_holder_in_the_dark(
    scenes, cuttable, crowd, trial
):
    """It goes on with what it had heard before it was frozen."""
    assert not _freeze_and_cut(scenes, cuttable, crowd)


@pytest.mark.timeout(150)
@pytest.mark.parametrize("trial", range(TRIALS))
def test_a_leader_that_comes_back_after_the_ttl_lets_nobody_in_too_early(
    scenes, cuttable, crowd, trial
):
    """It may revoke leases that were just renewed: their holders have time to find out."""
    assert not _freeze_for_long(scenes, cuttable, crowd)


@pytest.mark.timeout(150)
def test_such_a_trial_finds_a_keep_alive_that_nobody_confirms(scenes, cuttable, crowd, monkeypatch):
    """With the keep-alive alone, and without a hold that outlives its claim, two are trusted."""
    monkeypatch.setattr(records, "grace_in", lambda _: 0.0)
    monkeypatch.setattr("holdfast.backends.etcd.orphans.grace_in", lambda _: 0.0)
    ask = {kind: kind.ask_once for kind in (AsyncEtcdWire, EtcdWire)}

    def without_reading(kind):
        def asked(self, request, *, deadline):
            if request.body == requests.range_(self._guard.key).body:
                request = requests.range_(self._guard.key, serializable=True)
            return ask[kind](self, request, deadline=deadline)

        return asked

    for kind in ask:
        monkeypatch.setattr(kind, "ask_once", without_reading(kind))

    assert _freeze_and_cut(scenes, cuttable, crowd)
