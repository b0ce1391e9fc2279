"""A leader that is deposed and does not know it, or comes back after it was frozen.

It renews leases that its successor ends, and revokes leases that its successor has renewed. Clients
that lack a defence take part in each trial beside those as they are. Each defence has a trial that
has to find out who lacks it, or it would prove nothing. One trial of each kind belongs to every
run; `LOCKFAST_TRIALS=20` in the environment makes more of them.
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
from lockfast.challenge.eventually import eventually
from lockfast.challenge.servers.etcd import EtcdServer
from lockfast.challenge.servers.etcd_partitions import CuttableCluster
from lockfast.challenge.servers.proxy import Proxy

TRIALS = int(os.environ.get("LOCKFAST_TRIALS", "1"))

TTL = 3.0
LEASES = 10
"""So many beside it are renewed in each flavour: one alone rarely meets what revokes it."""

RETURNED = 7.5
"""So long after it was resumed a leader has revoked what it will: in most trials all that it did
not ask for at first, after the 6 s that it waits for those to be agreed on."""

FREE = 60.0
"""Within this the next one holds: an election, two ttls, and whatever a busy machine adds."""

REPEATS = 12
"""So often a trial is repeated until it has found all who lack something, which one or two do on a
quiet machine. One that is busy makes them stop in time by chance."""


@pytest.fixture
def flavours(outliving) -> Iterator[list[Flavour]]:
    with each_flavour() as both:
        yield both


@pytest.fixture
def crowd(flavours) -> Callable[[str], None]:
    """Open clients at a URL that renew leases of their own, until the test ends."""

    def open_at(url: str) -> None:
        for flavour in flavours:
            for number in range(LEASES):
                locks = flavour.locks(url, ttl=TTL)
                locks.lock(f"crowd-{flavour.name}-{os.urandom(4).hex()}-{number}").acquire()

    return open_at


def _others(cluster: CuttableCluster, leader: EtcdServer) -> str:
    return "etcd://" + ",".join(one.address for one in cluster.members if one is not leader)


def _pass_time(trials: Sequence[Trial], seconds: float) -> None:
    clock = trials[0].flavour.clock
    begun_at = clock.now()
    eventually(lambda: clock.now() >= begun_at + seconds, what="time passes")


def _overlapping(trials: Sequence[Trial]) -> set[str]:
    """Return what those go by of whom two were trusted at the same time."""
    looks = [one.flavour.start(one.overlaps, FREE) for one in trials]
    found = [look.result(FREE) for look in looks]
    return {str(one.defences) for one, does in zip(trials, found, strict=True) if does}


def _on_the_leader(
    flavours: Sequence[Flavour], cluster: CuttableCluster, kinds: Sequence[Defences]
) -> tuple[EtcdServer, list[Trial]]:
    """Let some hold who are attached to the leader alone, and others wait who are not."""
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
    cluster: CuttableCluster,
    kinds: Sequence[Defences],
    *,
    silently: bool,
) -> set[str]:
    leader, trials = _on_the_leader(flavours, cluster, kinds)

    cluster.cut_off(leader, silently=silently)

    return _overlapping(trials)


def _freeze_and_cut(
    flavours: Sequence[Flavour], cluster: CuttableCluster, kinds: Sequence[Defences]
) -> set[str]:
    """Freeze it until another leads, for less than the ttl, and cut it off before it goes on."""
    leader, trials = _on_the_leader(flavours, cluster, kinds)

    leader.pause()
    cluster.cut_off(leader, silently=True)
    _pass_time(trials, 0.6 * TTL)
    leader.resume()

    return _overlapping(trials)


def _until_found(trial: Callable[[], set[str]], cluster: CuttableCluster, *lacking: Defences):
    """Repeat a trial until it has found all who lack something; it never finds anybody else."""
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
    """It knows the session for ever; when the next one holds, the holder knows better.

    That a keep-alive is answered would do here: the leader gives up in time. It also says soon that
    it leads nobody, and clients go away from it: by this those who believe a member's word are
    saved in many of the trials. A frozen one does neither, and the next test finds who lacks what.
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
    """It goes on with what it had heard before it was frozen; what proves a session is enough."""
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
    """It may revoke leases that were just renewed: their holders have time to find out.

    It does so in most of the trials, but the holder hears of it at once, so that few of them find
    those who do not wait: the next test does.
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
    """As such a leader does, and here every time; the holder is cut off and cannot hear of it.

    Only that the next one waits for the hold keeps the two apart: what proves the session was true.
    So does who lets etcd remove the hold.
    """
    proxy = outliving.enter_context(Proxy(own_server.port, scheme="etcd"))
    kinds = [AS_THEY_ARE, BY_ETCD_ALONE, WITHOUT_WAITING]
    trials = [Trial(one, kind, elsewhere=proxy.url) for kind in kinds for one in flavours]
    for one in trials:
        one.hold(proxy.url, ttl=TTL)
        one.wait_behind(own_server.url, ttl=60)
    sessions = [session_of(one.locks).wire._guard.lease for one in trials]
    for one in trials:
        one.diary.until_renewed()

    proxy.cut()
    for lease in sessions:
        own_server.ask("lease/revoke", ID=lease)

    assert _overlapping(trials) == {str(WITHOUT_WAITING)}
