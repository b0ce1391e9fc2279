"""A URL given by the user: which proxies clients connect through, and which faults are possible."""

from __future__ import annotations

import pytest
from challenge.deployments.struck import PATIENT, is_served
from redis.exceptions import TimeoutError as Unanswered
from servers.redis import shared_server

from lockfast import Locks
from lockfast_challenge.clients.fleet import Fleet
from lockfast_challenge.deployments.catalog import given
from lockfast_challenge.faults.fault import Draw
from lockfast_challenge.faults.schedule import all_faults
from lockfast_challenge.servers.server import CannotStart


@pytest.mark.parametrize(
    ("url", "store", "number"),
    [
        ("redis://:secret@cache/3", "redis", 1),
        ("redlock://h1,h2:7000,h3?max_ttl=5", "redlock", 3),
        ("postgresql://shop@db/shop", "postgresql", 1),
        ("postgres://shop@db1,db2/shop", "postgresql", 2),
        ("mariadb://shop@host9/shop", "mariadb", 1),
        ("memcached://host9", "memcached", 1),
        ("etcd://h1,h2,h3/shop", "etcd", 3),
        ("zookeeper://h1,[::1]:2182", "zookeeper", 2),
        # No proxies: these servers announce their own addresses, or their certificate names a host,
        # or the store has no servers.
        ("redis+sentinel://h1,h2/mymaster", "sentinel", 0),
        ("redis+cluster://h1,h2", "cluster", 0),
        ("rediss://cache", "redis", 0),
        ("unix:///run/redis.sock", "redis", 0),
        ("etcds://h1,h2", "etcd", 0),
        ("mysql://shop@db/shop?ssl=true", "mysql", 0),
        ("postgresql:///shop?host=/run/postgresql", "postgresql", 0),
        ("sqlite:///var/lib/shop/locks.db", "sqlite", 0),
    ],
)
def test_each_client_has_a_way_to_each_server_that_the_url_names(url, store, number):
    """A client's URL differs only in its hosts, which are proxies; nothing connects yet."""
    with given(url, ttl=5.0) as one:
        proxies_of = [one.proxies_of(client) for client in (0, 1)]
        urls = [one.url_for(client) for client in (0, 1)]

        assert one.store == store
        assert [len(each) for each in proxies_of] == [number, number]
        hosts = url.partition("://")[2].partition("/")[0].partition("?")[0].rpartition("@")[2]
        for mine, its_url in zip(proxies_of, urls, strict=True):
            told = ",".join(way.address for way in mine)
            assert its_url == (url.replace(hosts, told, 1) if number else url)


def test_a_client_of_a_given_server_is_served_by_its_way():
    with given(shared_server().url, ttl=5.0) as one, Locks(one.url_for(0)) as locks:
        is_served(locks)

        assert one.proxies_of(0)[0].connections
        assert {each.fault for each in one.exemptions} == {"server-emptied", "clock-jump"}


@pytest.mark.parametrize("options", ["", "?durability=fsync&request_timeout=5"])
def test_a_given_redis_is_paused_by_its_own_command_and_resumed(options):
    """The pause also works if the URL has options that only Lockfast understands."""
    server = shared_server()
    with given(f"{server.url}{options}", ttl=5.0) as one:
        [fault] = one.faults()
        assert fault.kind == "server-paused"
        assert fault.is_destructive

        fault.begin(Draw(length=PATIENT, strength=0.0, anybody=0), None)
        try:
            with server.client(socket_timeout=0.2) as client, pytest.raises(Unanswered):
                client.set("anything", "1")
        finally:
            fault.end()

        with server.client(socket_timeout=PATIENT) as client:
            assert client.set("anything", "1")


def test_a_given_server_is_struck_only_where_somebody_said_that_it_may_be(tmp_path):
    fleet = Fleet(0, tmp_path, lambda *_: None)
    for may_break in (False, True):
        with given("redis://host9", ttl=5.0, may_break=may_break) as one:
            lacks = all_faults(fleet, one)["server-paused"].lacks

            assert ("others may use" in lacks) != may_break


def test_a_scheme_that_nobody_knows_is_refused():
    with pytest.raises(CannotStart, match="a challenge of consul:// is not known"):
        given("consul://h", ttl=5.0)
