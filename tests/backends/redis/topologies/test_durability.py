"""`durability="replica"`: a lock counts only when a replica has it."""

from __future__ import annotations

import pytest
from backends.redis.topologies.expectations import is_given_back

from lockfast import ConfigurationError, Locks
from lockfast_challenge.servers.redis import until


@pytest.fixture(params=["own_sentinels", "cluster"])
def servers(request):
    return request.getfixturevalue(request.param)


def test_a_lock_that_no_replica_confirms_is_given_back(servers, drivers):
    """A lock that no replica confirms is refused, because it would be lost with its master."""
    options = {"durability": "replica", "ttl": 0.9, "request_timeout": 0.5}
    before, after = drivers(servers.url, **options), drivers(servers.url)
    for one in (*before, *after):
        one.release(one.acquire("anything"))
    leases = [one.acquire(f"held {one.flavour}") for one in before]
    replicas = servers.cut_off_replicas()

    try:
        is_given_back(before, leases, after)
    finally:
        for replica in replicas:
            replica.resume()


def test_a_lock_that_a_replica_confirms_is_renewed_and_waited_for(cluster, drivers):
    """With a replica's confirmation, renewals and hand-overs work as usual."""
    options = {"durability": "replica", "ttl": 1.5}
    for one, other in zip(drivers(cluster.url, **options), drivers(cluster.url), strict=True):
        lease = one.acquire("door")
        waiting = other.begin_acquire("door")
        wanted = one.renewals + 2
        until(lambda d=one, w=wanted: d.renewals >= w, what="renewals")
        assert lease.is_trusted

        one.release(lease)
        successor = waiting.result(20)

        assert successor.token > lease.token
        other.release(successor)


def test_fsync_is_refused_where_the_server_cannot(sentinels):
    """`durability="fsync"` needs WAITAOF, which Redis 7.0 does not have."""
    with (
        Locks(f"redis://127.0.0.1:{sentinels.master.port}", durability="fsync") as locks,
        pytest.raises(ConfigurationError, match=r"needs Redis 7\.2"),
    ):
        locks.lock("door").acquire()


def test_another_durability_is_refused_by_name():
    with pytest.raises(ConfigurationError, match="replica or fsync is accepted"):
        Locks("redis://localhost", durability="both")
