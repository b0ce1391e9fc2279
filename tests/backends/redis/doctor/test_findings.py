"""Each finding of `lockfast doctor`, provoked on a real server."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lockfast.backends.redis.diagnostics import ServerFacts, findings
from lockfast_challenge.servers.redis import RedisServer, ShiftedRedis


def test_a_server_that_is_well(flavour):
    """On a well-configured server the doctor only notes that the user may do everything."""
    with RedisServer("--appendonly", "yes", "--appendfsync", "always") as server:
        found = flavour.locks(server.url).diagnose()

    assert {one.subject: one.level for one in found} == {
        "server": "ok",
        "eviction": "ok",
        "persistence": "ok",
        "clock": "ok",
        "permissions": "note",
    }
    assert "is Redis 7." in found[0].message


# -- memory --------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl"])
def test_a_policy_that_deletes_locks(finding, admin, policy):
    """Lockfast's keys have an expiry time, so the volatile policies evict them as well."""
    admin.config_set("maxmemory", "100mb")
    admin.config_set("maxmemory-policy", policy)

    found = finding("eviction")

    assert found.level == "error"
    assert policy in found.message
    assert "noeviction" in found.remedy


def test_a_policy_that_would_delete_locks_if_there_were_a_limit(finding, admin):
    admin.config_set("maxmemory-policy", "allkeys-lru")

    assert finding("eviction").level == "note"


@pytest.mark.parametrize(
    ("spare", "level"), [(0.5, "ok"), (0.05, "warning"), (-0.5, "error")], ids=str
)
def test_how_full_the_memory_is(finding, admin, spare, level):
    admin.setrange("other data", 30_000_000, "x")
    used = admin.info("memory")["used_memory"]
    admin.config_set("maxmemory", int(used * (1 + spare)))

    found = finding("memory")

    assert found.level == level
    assert "% of maxmemory is used" in found.message


# -- persistence ----------------------------------------------------------------------------


def test_nothing_is_kept(finding):
    found = finding("persistence")

    assert found.level == "warning"
    assert "a restart forgets every lock" in found.message
    assert found.remedy == "appendonly yes"


def test_snapshots_are_kept(finding, admin):
    admin.config_set("save", "60 1")

    found = finding("persistence")

    assert found.level == "warning"
    assert "snapshots only" in found.message


@pytest.mark.parametrize(
    ("fsync", "level", "loses"),
    [
        ("everysec", "note", "may lose the last second"),
        ("no", "note", "what the kernel had not yet written"),
        ("always", "ok", "on disk before it counts"),
    ],
)
def test_every_write_is_kept(finding, admin, fsync, level, loses):
    admin.config_set("appendonly", "yes")
    admin.config_set("appendfsync", fsync)

    found = finding("persistence")

    assert found.level == level
    assert loses in found.message


# -- replicas -------------------------------------------------------------------------------


@pytest.fixture
def replica(server, admin, eventually):
    admin.config_set("repl-diskless-sync-delay", 0)
    with RedisServer("--replicaof", "127.0.0.1", str(server.port)) as one:
        eventually(lambda: admin.info("replication").get("slave0", {}).get("state") == "online")
        yield one


def test_a_failover_may_lose_what_no_replica_has(finding, replica):
    found = finding("replicas")

    assert found.level == "note"
    assert "does not wait for its 1 replica(s)" in found.message
    assert "min-replicas-to-write 1" in found.remedy


def test_writes_that_wait_for_a_replica(finding, admin, replica):
    admin.config_set("min-replicas-to-write", 1)

    assert finding("replicas").level == "ok"


def test_a_replica_that_is_missing(finding, admin):
    admin.config_set("min-replicas-to-write", 1)

    found = finding("replicas")

    assert found.level == "error"
    assert "0 of the 1 replicas" in found.message


def test_a_replica_that_lags(flavour, server, admin, replica, eventually):
    """The replica is frozen until it has been silent for longer than the master tolerates."""
    admin.config_set("min-replicas-max-lag", 1)
    replica.pause()
    eventually(lambda: admin.info("replication")["slave0"]["lag"] > 1)

    [lagging, _] = [
        one for one in flavour.locks(server.url).diagnose() if one.subject == "replicas"
    ]

    assert lagging.level == "warning"
    assert f"127.0.0.1:{replica.port} is online and" in lagging.message


def test_a_replica_given_as_the_server(finding, server, replica):
    found = finding("replicas", replica.url)

    assert found.level == "error"
    assert f"127.0.0.1:{server.port}" in found.remedy


# -- clock and version -----------------------------------------------------------------------


@pytest.mark.parametrize(("shift", "words"), [(60.0, "60 s ahead"), (-60.0, "60 s behind")])
def test_a_clock_that_differs_from_ours(flavour, shift, words):
    with ShiftedRedis() as server:
        server.shift_clock(shift)
        found = flavour.locks(server.url).diagnose()

    [clock] = [one for one in found if one.subject == "clock"]
    assert clock.level == "warning"
    assert words in clock.message


def test_a_server_that_is_too_old():
    """The facts are made up, because the tests have no Redis server that old."""
    facts = ServerFacts("redis://there", "lockfast", {"redis_version": "6.2.14"}, {}, 0.0, "cannot")

    [found] = [one for one in findings(facts) if one.subject == "server"]

    assert found.level == "error"
    assert "6.2.14" in found.message


# -- the command -----------------------------------------------------------------------------


def test_the_doctor_prints_what_was_found(server, admin):
    admin.config_set("maxmemory", "100mb")
    admin.config_set("maxmemory-policy", "allkeys-lru")

    done = subprocess.run(
        [sys.executable, "-m", "lockfast", "doctor", "--url", server.url],
        check=False,
        capture_output=True,
        text=True,
        timeout=30,
    )

    assert done.returncode == 1
    assert "eviction" in done.stdout
    assert "to fix it: CONFIG SET maxmemory-policy noeviction" in done.stdout
