"""A leader that is deposed without knowing it, or that comes back after it was frozen.

Such a leader renews leases that its successor ends, and revokes leases that its successor has
renewed. In each trial, clients that lack a defence run beside unmodified clients. For each defence,
some trial must detect the clients that lack it; otherwise the trials would prove nothing. Every run
includes one trial of each kind; `LOCKFAST_TRIALS=20` in the environment runs more of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence

import pytest
from backends.etcd.defences import (
    AS_THEY_ARE,
    BY_ETCD_ALONE,
    WITHOUT_WAITING,
    Defences,
    Trial,
    by_keep_alives_alone,
    by_reads_elsewhere,
    by_the_members_word,
    unseen,
)
from backends.etcd.open_sessions import session_of
from both_flavours import Flavour, each_flavour

from lockfast import LeaseLost
from lockfast_challenge.processes import eventually
from lockfast_challenge.servers.etcd import EtcdServer, PartitionableCluster
from lockfast_challenge.servers.proxy import Proxy

TRIALS = int(os.environ.get("LOCKFAST_TRIALS", "1"))

TTL = 3.0
LEASES = 10
"""Number of other leases renewed in each flavour, because a revocation rarely hits a single
lease."""

RETURNED = 7.5
"""Seconds in which a resumed leader has revoked every lease that it will revoke. In most trials, it
revokes all leases but those whose revocation it requested first: it waits 6 s for consensus on
those revocations before it goes on."""

FREE = 60.0
"""Time until the next client holds, in seconds: an election, two ttls, and slack for a busy
machine."""

REPEATS = 12
"""Maximum number of runs in which a trial must have detected every client that lacks a defence. One
or two runs are enough on a quiet machine; on a busy machine, such clients stop in time by
chance."""


@pytest.fixture
def flavours(outliving) -> Iterator[list[Flavour]]:
    with each_flavour() as both:
        yield both


@pytest.fixture
def crowd(flavours) -> Callable[[str], None]:
    """Return a function that opens clients whose leases are renewed until the test ends."""

    def open_at(url: str) -> None:
        for flavour in flavours:
            for number in range(LEASES):
                locks = flavour.locks(url, ttl=TTL)
                locks.lock(f"crowd-{flavour.name}-{os.urandom(4).hex()}-{number}").acquire()

    return open_at


def _others(cluster: PartitionableCluster, leader: EtcdServer) -> str:
    return "etcd://" + ",".join(one.address for one in cluster.members if one is not leader)


def _pass_time(trials: Sequence[Trial], seconds: float) -> None:
    clock = trials[0].flavour.clock
    begun_at = clock.now()
    eventually(lambda: clock.now() >= begun_at + seconds, what="time passes")


def _overlapping(trials: Sequence[Trial]) -> set[str]:
    """Return the defences of the trials in which two clients trusted their leases at once."""
    looks = [one.flavour.start(one.overlaps, FREE) for one in trials]
    found = [look.result(FREE) for look in looks]
    return {str(one.defences) for one, does in zip(trials, found, strict=True) if does}


def _on_the_leader(
    flavours: Sequence[Flavour], cluster: PartitionableCluster, kinds: Sequence[Defences]
) -> tuple[EtcdServer, list[Trial]]:
    """Start holders connected only to the leader, and waiters connected only to other members."""
    for _ in range(REPEATS):
        leader = cluster.leader()
        elsewhere = _others(cluster, leader)
        trials = [Trial(one, kind, elsewhere=elsewhere) for kind in kinds for one in flavours]
        for one in trials:
            one.begin(leader.url, ttl=TTL, behind=elsewhere, renewals=1)
        if all(one.lease.is_trusted for one in trials):
            return leader, trials
    pytest.fail("the lease of the first ended each time before the last one had begun")


def _cut(
    flavours: Sequence[Flavour],
    cluster: PartitionableCluster,
    kinds: Sequence[Defences],
    *,
    silently: bool,
) -> set[str]:
    leader, trials = _on_the_leader(flavours, cluster, kinds)

    cluster.cut_off(leader, silently=silently)

    return _overlapping(trials)


def _freeze_and_cut(
    flavours: Sequence[Flavour], cluster: PartitionableCluster, kinds: Sequence[Defences]
) -> set[str]:
    """Freeze the leader for 0.6 ttl, so that another member leads; cut it off before it resumes."""
    leader, trials = _on_the_leader(flavours, cluster, kinds)

    leader.pause()
    cluster.cut_off(leader, silently=True)
    _pass_time(trials, 0.6 * TTL)
    leader.resume()

    return _overlapping(trials)


def _until_found(trial: Callable[[], set[str]], cluster: PartitionableCluster, *lacking: Defences):
    """Repeat a trial until it has found all clients that lack a defence, and no other clients."""
    to_find = {str(one) for one in lacking}
    found: set[str] = set()
    for _ in range(REPEATS):
        seen = trial()
        assert seen <= to_find
        found |= seen
        if found == to_find:
            break
        cluster.heal()
    assert found == to_find


@pytest.mark.timeout(300)  # elections, two ttls each, and a cluster that has to heal
@pytest.mark.parametrize("trial", range(TRIALS))
@pytest.mark.parametrize("silently", [False, True], ids=["reset", "silently"])
def test_a_leader_that_is_cut_off_keeps_no_holder_in_the_dark(
    flavours, cuttable, crowd, silently, trial
):
    """The old leader never sees the session end, but the holder stops before another client holds.

    An answered keep-alive would suffice here, because the old leader steps down in time. The old
    leader also reports soon that it no longer leads, and clients leave it; in many of the trials
    this saves the clients that believe a member's word. A frozen leader does neither; the next test
    detects clients that rely on keep-alives alone.
    """
    crowd(cuttable.leader().url)
    believing = Defences(by_the_members_word)
    kinds = [AS_THEY_ARE, WITHOUT_WAITING, believing]

    assert _cut(flavours, cuttable, kinds, silently=silently) <= {str(believing)}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("trial", range(TRIALS))
def test_a_leader_that_was_frozen_and_is_cut_off_keeps_no_holder_in_the_dark(
    flavours, cuttable, crowd, trial
):
    """The resumed leader acts on what it received before the freeze; the session proof suffices."""
    crowd(cuttable.leader().url)
    lacking = [
        Defences(by_keep_alives_alone, unseen),
        Defences(by_reads_elsewhere, unseen),
    ]

    _until_found(
        lambda: _freeze_and_cut(flavours, cuttable, [AS_THEY_ARE, WITHOUT_WAITING, *lacking]),
        cuttable,
        *lacking,
    )


@pytest.mark.timeout(150)
@pytest.mark.parametrize("trial", range(TRIALS))
def test_a_leader_that_comes_back_after_the_ttl_lets_nobody_in_too_early(
    flavours, cuttable, crowd, trial, record_property
):
    """The leader may revoke leases that were just renewed, but their holders have time to find out.

    The leader does so in most of the trials, but the holder is notified at once, so few trials
    detect the clients that do not wait. The next test detects them.
    """
    leader = cuttable.leader()
    elsewhere = _others(cuttable, leader)
    crowd(elsewhere)
    kinds = [AS_THEY_ARE, WITHOUT_WAITING]
    trials = [Trial(one, kind, elsewhere=elsewhere) for kind in kinds for one in flavours]
    for one in trials:
        one.hold(elsewhere, ttl=TTL)
        one.wait_behind(elsewhere, ttl=60)

    leader.pause()
    _pass_time(trials, 1.7 * TTL)
    looks = [one.flavour.start(one.overlaps, FREE) for one in trials]
    leader.resume()
    _pass_time(trials, RETURNED)
    revoked = 0
    for one in trials:
        try:
            one.lease.release()
        except LeaseLost:
            revoked += 1
    found = [one.defences for one, look in zip(trials, looks, strict=True) if look.result(FREE)]

    record_property("revoked", revoked)
    record_property("overlapping", len(found))
    assert AS_THEY_ARE not in found


@pytest.mark.timeout(150)
@pytest.mark.parametrize("trial", range(TRIALS))
def test_a_lease_that_is_revoked_when_it_was_just_renewed_lets_nobody_in_too_early(
    flavours, own_server, outliving, trial
):
    """Revoke leases as a returning leader does, but every time, after cutting the holder off.

    The holder is not notified, and its session was proven truthfully, so only the next client's
    wait for the hold prevents an overlap. A client that leaves the removal of the hold to etcd
    waits as well.
    """
    proxy = outliving.enter_context(Proxy(own_server.port, scheme="etcd"))
    kinds = [AS_THEY_ARE, BY_ETCD_ALONE, WITHOUT_WAITING]
    trials = [Trial(one, kind, elsewhere=proxy.url) for kind in kinds for one in flavours]
    for one in trials:
        one.hold(proxy.url, ttl=TTL)
        one.wait_behind(own_server.url, ttl=60)
    sessions = [session_of(one.locks).transport._requests.guard.lease for one in trials]
    for one in trials:
        one.diary.until_renewed()

    proxy.cut()
    for lease in sessions:
        own_server.ask("lease/revoke", ID=lease)

    assert _overlapping(trials) == {str(WITHOUT_WAITING)}
