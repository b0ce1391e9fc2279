"""Servers that we start, of each store: each fault begins and ends, and clients recover."""

from __future__ import annotations

import contextlib
import time
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest
from challenge.deployments.struck import (
    ANY,
    OTHER,
    PATIENT,
    TTL,
    Struck,
    is_served,
    one_clock_is_wrong,
    servers_of,
    strike,
)

from lockfast import Locks
from lockfast_challenge.deployments import replicated_redis
from lockfast_challenge.deployments.catalog import STORES, given, own_servers

ONE_SERVER = frozenset({"server-paused", "server-killed", "server-emptied"})
JUMPING = frozenset({"redis", "redlock", "postgresql", "mysql", "mariadb"})
MEMBERS = frozenset({"leader-cut", "leader-cut-silently", "node-paused", "node-killed"})


class Jumping(Struck):
    """Stores where a jump of the clock shows in the server's own time."""

    @pytest.mark.parametrize("draw", [ANY, OTHER], ids=["back", "ahead"])
    def test_a_clock_jumps_by_more_than_a_ttl_and_is_put_right(self, deployment, draw):
        [fault] = [one for one in deployment.faults() if one.kind == "clock-jump"]
        try:
            fault.begin(draw, None)
            assert one_clock_is_wrong(servers_of(deployment))
        finally:
            fault.end()

        assert not one_clock_is_wrong(servers_of(deployment))


class TestRedis(Jumping):
    store = "redis"
    kinds = ONE_SERVER | {"clock-jump"}


class TestMemcached(Struck):
    store = "memcached"
    kinds = ONE_SERVER
    not_made = frozenset({"clock-jump"})


class TestPostgresql(Struck):
    store = "postgresql"
    kinds = ONE_SERVER | {"clock-jump"}


class TestMysql(Struck):
    store = "mysql"
    kinds = ONE_SERVER | {"clock-jump"}


class TestMariadb(Struck):
    store = "mariadb"
    kinds = ONE_SERVER | {"clock-jump"}


class TestRedlock(Jumping):
    store = "redlock"
    kinds = frozenset({"node-paused", "node-killed", "node-emptied", "clock-jump"})


class Forgetting(Struck):
    """A failover must lose the latest acknowledged write; otherwise the fault shows nothing."""

    def test_a_failover_forgets_a_lock_that_is_held(self, deployment, monkeypatch):
        leases = []
        with Locks(deployment.url_for(0), ttl=60.0, request_timeout=PATIENT) as locks:
            is_served(locks)
            held = SimpleNamespace(
                monotonic=time.monotonic,
                sleep=lambda _: leases.append(locks.lock("door").acquire()),
            )
            monkeypatch.setattr(replicated_redis, "time", held)
            [fault] = [one for one in deployment.faults() if one.kind == "failover"]

            strike(fault)

            with Locks(deployment.url_for(1), ttl=60.0, request_timeout=PATIENT) as others:
                is_served(others)
                assert leases[0].is_trusted


class TestSentinel(Forgetting):
    store = "sentinel"
    kinds = frozenset({"failover", "server-paused", "server-killed", "node-paused"})

    def test_sentinels_of_the_user_can_be_asked_for_a_failover(self, deployment):
        master = deployment._group.master
        with given(deployment.url, ttl=TTL) as one:
            [fault] = one.faults()

            assert not one.proxies_of(0)
            assert one.url_for(0) == deployment.url
            assert fault.kind == "failover"
            assert "failover" in {each.fault for each in one.exemptions}
            assert fault.begin(ANY, None) == "the master"
            assert deployment._group.until_failed_over(master) is not master


class TestCluster(Forgetting):
    store = "cluster"
    kinds = frozenset({"failover", "server-paused", "server-killed"})


class TestEtcd(Struck):
    store = "etcd"
    kinds = MEMBERS
    not_made = frozenset({"clock-jump", "node-emptied"})


class TestZookeeper(Struck):
    store = "zookeeper"
    kinds = MEMBERS | {"node-emptied"}
    not_made = frozenset({"clock-jump"})


class TestSqlite:
    def test_there_is_a_file_and_no_server_to_strike(self):
        with own_servers("sqlite", ttl=TTL) as one:
            with Locks(one.url_for(0)) as locks:
                is_served(locks)

            assert one.url_for(0) == one.url
            assert not one.proxies_of(0)
            assert not one.faults()


def test_every_store_is_tried():
    tried = {
        one.store
        for kind in (Struck, Jumping, Forgetting)
        for one in kind.__subclasses__()
        if hasattr(one, "store")
    }

    assert tried | {"sqlite"} == set(STORES)


ONE_CLOCK = {
    ("server-emptied", "overlap", None),
    ("server-emptied", "token", "back"),
    ("clock-jump", "overlap", "ahead"),
}
REPLICATED = {(kind, "overlap", None) for kind in ("failover", "server-paused", "server-killed")}
EXCUSED = {
    "redis": ONE_CLOCK,
    "postgresql": ONE_CLOCK,
    "mysql": ONE_CLOCK,
    "mariadb": ONE_CLOCK,
    "sentinel": REPLICATED,
    "cluster": REPLICATED,
    "redlock": {("clock-jump", "overlap", "ahead")},
    "memcached": {(kind, "overlap", None) for kind in ONE_SERVER},
    "etcd": set(),
    "zookeeper": set(),
    "sqlite": set(),
}
"""What each store excuses, by fault, by kind of finding, and by how its clock is set."""


@pytest.mark.parametrize("store", STORES)
def test_what_is_excused_stands_on_the_page_of_the_store(store, page_of):
    """A finding is documented only if the store's page says so, word for word."""
    with contextlib.ExitStack() as stack:
        one = own_servers(store, ttl=TTL)  # the servers are never started
        stack.push(one.__exit__)
        there = {fault.kind for fault in one.faults()}
        found = [(each.fault, each.finding, each.clock) for each in one.exemptions]

        assert len(found) == len(set(found))
        assert set(found) == EXCUSED[store]
        assert {fault for fault, _, _ in found} <= there
        for each in one.exemptions:
            assert each.sentence in page_of(store), each


@pytest.mark.parametrize("store", STORES)
def test_only_a_jump_of_the_clock_sets_it_and_says_how_far(store):
    with contextlib.ExitStack() as stack:
        one = own_servers(store, ttl=TTL)
        stack.push(one.__exit__)
        made = [fault for fault in one.faults() if not fault.lacks]
        jumping = {fault.kind: fault.jumps for fault in made if fault.jumps is not None}

        assert jumping.keys() == ({"clock-jump"} if store in JUMPING else set())
        for jumps in jumping.values():
            assert jumps(ANY) < -TTL
            assert jumps(OTHER) > TTL


@pytest.mark.parametrize("store", ["postgresql", "mysql", "mariadb"])
def test_all_tables_of_a_database_are_emptied_at_once(store, monkeypatch):
    """Clients never find one table empty and the other not."""
    one = own_servers(store, ttl=TTL)
    said: list[str] = []
    connection = MagicMock()
    opened = connection.__enter__()
    for executing in (opened, opened.cursor().__enter__()):
        executing.execute.side_effect = lambda statement, *_: said.append(statement) or MagicMock()
    monkeypatch.setattr(one.server, "connect", lambda *_: connection)

    one.empty_tables()
    one.stop()

    if store == "postgresql":
        assert said == ["TRUNCATE lockfast_door, lockfast_place"]
    else:
        assert said[0] == "LOCK TABLES lockfast_door WRITE, lockfast_place WRITE"
        assert said[1:] == [
            "DELETE FROM lockfast_door", "DELETE FROM lockfast_place", "UNLOCK TABLES"
        ]  # fmt: skip
