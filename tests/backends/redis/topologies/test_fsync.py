"""`durability="fsync"`: a lock counts only once it is on disk; needs a server with WAITAOF."""

from __future__ import annotations

import pytest
from backends.redis.topologies.expectations import is_given_back
from servers.redis import ValkeyServer

from lockfast import ConfigurationError
from lockfast_challenge.servers.redis import until


@pytest.fixture
def server():
    with ValkeyServer("--appendonly", "yes", "--appendfsync", "always") as one:
        yield one


def test_a_lock_that_is_on_the_disk_is_renewed_and_waited_for(server, drivers):
    """Each grant and each renewal counts only once the server has confirmed the disk write."""
    options = {"durability": "fsync", "ttl": 1.5}
    for one, other in zip(drivers(server.url, **options), drivers(server.url), strict=True):
        asked = server.calls("waitaof")
        lease = one.acquire("door")
        assert server.calls("waitaof") > asked
        waiting = other.begin_acquire("door")
        wanted = one.renewals + 2
        until(lambda d=one, w=wanted: d.renewals >= w, what="renewals")
        assert server.calls("waitaof") >= asked + 3
        assert lease.is_trusted

        one.release(lease)
        successor = waiting.result(20)

        assert successor.token > lease.token
        other.release(successor)


def test_a_lock_that_does_not_reach_the_disk_is_given_back(server, drivers):
    """A lock that the server never syncs to disk is refused, and nothing is left of it."""
    before = drivers(server.url, durability="fsync", ttl=0.9, request_timeout=0.3)
    after = drivers(server.url)
    leases = [one.acquire(f"held {one.flavour}") for one in before]
    with server.client() as client:
        client.config_set("appendfsync", "no")

    is_given_back(before, leases, after)


def test_a_server_that_keeps_nothing_is_refused(server, drivers):
    with server.client() as client:
        client.config_set("appendonly", "no")

    for one in drivers(server.url, durability="fsync"):
        with pytest.raises(ConfigurationError, match="with appendonly yes"):
            one.acquire("door", timeout=1)
        assert one.survey() == []


def test_the_doctor_says_whether_it_can_be_had(server, drivers):
    for one in drivers(server.url, durability="fsync"):
        found = {finding.subject: finding for finding in one.call(one.locks.diagnose)}
        assert (found["durability"].level, found["server"].level) == ("ok", "ok")
        assert "is Valkey 9." in found["server"].message

    with server.client() as client:
        client.config_set("appendonly", "no")

    for one in drivers(server.url, durability="fsync"):
        found = {finding.subject: finding for finding in one.call(one.locks.diagnose)}
        assert found["durability"].level == "error"
