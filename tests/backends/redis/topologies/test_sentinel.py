"""A master watched by Sentinels, with real failovers; both flavours survive each of them."""

from __future__ import annotations

import time

import pytest
from backends.redis.topologies.expectations import is_told_and_fenced

from lockfast import BackendUnavailable, ConfigurationError, Locks
from lockfast.backends.redis._async import sentinel as aio
from lockfast.backends.redis._sync import sentinel as threads
from lockfast.backends.redis.sentinel_replies import SENTINEL_POLL_SECONDS
from lockfast_challenge.servers.redis import until
from lockfast_challenge.servers.redis_sentinel import SERVICE, Sentinels
from lockfast_challenge.servers.server import free_ports


def test_a_failover_that_loses_the_lock_is_told_and_fenced(own_sentinels, drivers, guarded):
    """A holder whose lock was lost in a failover learns of it, and its token is refused."""
    # The ttl outlasts a failover whose first vote was split: the Sentinels then wait four seconds.
    holders, others = drivers(own_sentinels.url, ttl=12.0), drivers(own_sentinels.url, ttl=12.0)
    for one in holders:
        one.release(one.acquire(f"door {one.flavour}"))
    own_sentinels.until_replicated(2)
    old = own_sentinels.master
    own_sentinels.cut_off_replicas()
    leases = {one: one.acquire(f"door {one.flavour}") for one in holders}
    for lease in leases.values():
        guarded.write(lease.name, lease.token)

    old.kill()
    for replica in own_sentinels.replicas:
        replica.resume()
    own_sentinels.until_failed_over(old)
    successors = [one.acquire(f"door {one.flavour}") for one in others]

    for (holder, lease), successor in zip(leases.items(), successors, strict=True):
        is_told_and_fenced(holder, lease, successor, guarded)


def test_holders_and_waiters_live_through_a_failover(own_sentinels, drivers):
    """After a failover, leases and lines continue at the new master."""
    holders, waiters = drivers(own_sentinels.url), drivers(own_sentinels.url)
    leases = [one.acquire(f"door {one.flavour}") for one in holders]
    waiting = [one.begin_acquire(f"door {one.flavour}") for one in waiters]
    for one in holders:
        until(lambda one=one: one.waiting(f"door {one.flavour}") == 1, what="a waiter")
    own_sentinels.until_replicated(2)
    old = own_sentinels.master

    own_sentinels.fail_over()
    new = own_sentinels.until_failed_over(old)
    until(lambda: all(one.is_at(new) for one in holders), what="holders at the new master")

    for holder, lease, future in zip(holders, leases, waiting, strict=True):
        holder.call(lease.renew)
        assert not future.done()
        holder.release(lease)
        successor = future.result(20)
        assert successor.token > lease.token


@pytest.fixture
def stubborn_sentinels():
    """Servers whose first master cannot be demoted, as if only its clients could reach it."""
    with Sentinels(
        *("--rename-command", "SLAVEOF", "", "--rename-command", "REPLICAOF", "")
    ) as one:
        yield one


@pytest.fixture
def _patient_look(monkeypatch):
    """Give the Sentinels more time to reply, for a machine that stalls."""
    for flavour in (aio, threads):
        monkeypatch.setattr(flavour, "SENTINEL_TIMEOUT_SECONDS", 10.0)


@pytest.mark.usefixtures("_patient_look")
def test_a_replaced_master_that_goes_on_answering_is_left(stubborn_sentinels, drivers):
    """Clients leave a replaced master although it still answers as if nothing had happened."""
    sentinels = stubborn_sentinels
    holders, idle = drivers(sentinels.url), drivers(sentinels.url)
    leases = [one.acquire(f"door {one.flavour}") for one in holders]
    for one in idle:
        one.release(one.acquire("anything"))
    is_old = time.monotonic() + SENTINEL_POLL_SECONDS  # when idle clients must check the master
    sentinels.until_replicated(2)
    old = sentinels.master

    sentinels.fail_over()
    new = sentinels.until_failed_over(old)
    until(lambda: all(one.is_at(new) for one in holders), what="holders at the new master")
    asked = old.calls()
    with old.client() as client:
        assert client.role()[0] == b"master"
    until(lambda: time.monotonic() > is_old, what="the idle have to look again")
    successors = [one.acquire(f"other {one.flavour}") for one in idle]

    for holder, lease in zip(holders, leases, strict=True):
        holder.call(lease.renew)
    with new.client() as client:
        for lease in successors:
            assert client.exists(f"{idle[0].namespace}:{{{lease.name}}}:door")
    assert old.calls() == asked


def test_a_master_that_was_away_while_it_was_replaced_is_left_when_it_is_back(
    own_sentinels, drivers
):
    """Clients leave an old master on its return, before the master knows of its successor."""
    idle = drivers(own_sentinels.url)
    for one in idle:
        one.release(one.acquire("anything"))
    old = own_sentinels.master
    old.pause()
    new = own_sentinels.until_failed_over(old)
    old.resume()

    leases = [one.acquire(f"door {one.flavour}") for one in idle]

    with new.client() as client:
        for lease in leases:
            assert client.exists(f"{idle[0].namespace}:{{{lease.name}}}:door")


def test_replicas_are_never_asked(sentinels, drivers):
    """No request for a name reaches a replica, whether the request reads or writes."""
    for replica in sentinels.replicas:
        with replica.client() as client:
            client.config_resetstat()

    for one in drivers(sentinels.url):
        lease = one.acquire("door")
        one.call(lease.renew)
        assert one.survey() == ["door"]
        assert one.waiting("door") == 0
        one.release(lease)

    for replica in sentinels.replicas:
        with replica.client() as client:
            stats = client.info("commandstats")
        assert not {"cmdstat_evalsha", "cmdstat_scan"} & set(stats)


def test_a_frozen_sentinel_costs_a_moment(sentinels, drivers):
    """If one Sentinel is frozen, clients ask the other Sentinels."""
    sentinels.sentinels[0].pause()
    try:
        started = time.monotonic()
        for one in drivers(sentinels.url, request_timeout=20.0):
            one.release(one.acquire("door"))
        assert time.monotonic() - started < 20.0  # of the 40 s that both clients have together
    finally:
        sentinels.sentinels[0].resume()


def test_an_unknown_master_is_named_with_those_that_are_known(sentinels, drivers):
    """An unknown master name is reported at once, without using up the timeout."""
    for one in drivers(sentinels.url.replace(SERVICE, "nobody"), request_timeout=20.0):
        started = time.monotonic()
        with pytest.raises(ConfigurationError, match=f"no master 'nobody'; they know: {SERVICE}"):
            one.acquire("door")
        assert time.monotonic() - started < 10.0


def test_unreachable_sentinels_are_an_outage():
    """Unreachable Sentinels are reported as an outage, within one request timeout."""
    [port] = free_ports(1)
    with (
        Locks(f"redis+sentinel://127.0.0.1:{port}/m", request_timeout=0.3) as locks,
        pytest.raises(
            BackendUnavailable,
            match=f"no Sentinel can be reached: nothing listens at .* 127.0.0.1:{port} of",
        ),
    ):
        locks.lock("door").acquire()


def test_a_sentinel_url_at_a_plain_server_says_which_url_to_use(sentinels, drivers):
    """The error comes at once, because waiting would not turn the server into a Sentinel."""
    url = f"redis+sentinel://127.0.0.1:{sentinels.master.port}/{SERVICE}"
    for one in drivers(url, request_timeout=20.0):
        with pytest.raises(ConfigurationError, match="the server there is no Sentinel") as caught:
            one.acquire("door")
        assert "use redis://HOST:PORT for a single server" in str(caught.value)
