"""Real servers that are killed, frozen and cut off from each other; clients on each of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from servers.etcd import shared_cluster

from lockfast_challenge.servers.etcd import EtcdCluster, EtcdServer, PartitionableCluster
from lockfast_challenge.servers.proxy import Proxy


@pytest.fixture(scope="module")
def module_server() -> Iterator[EtcdServer]:
    with EtcdServer() as one:
        yield one


@pytest.fixture
def own_server(module_server, outliving) -> Iterator[EtcdServer]:
    """A server that no other test uses now: its metrics are the test's own, and it may break."""
    if not module_server.is_running:
        module_server.start()
    yield module_server
    if module_server.is_running:
        module_server.resume()


@pytest.fixture
def proxy(server, outliving) -> Iterator[Proxy]:
    one = outliving.enter_context(Proxy(server.port, scheme="etcd"))
    yield one
    one.accept()
    one.let_through()


@pytest.fixture
def cluster(outliving) -> Iterator[EtcdCluster]:
    """Three members, all healthy when the test begins, and again when its clients close."""
    one = shared_cluster().heal()
    yield one
    one.heal()


@pytest.fixture(scope="module")
def module_members() -> Iterator[PartitionableCluster]:
    with PartitionableCluster() as one:
        yield one


@pytest.fixture
def cuttable(module_members, outliving) -> Iterator[PartitionableCluster]:
    """Members that can be cut off from each other; healed before and after each test."""
    yield module_members.heal()
    module_members.heal()


@pytest.fixture
def members(cluster) -> EtcdCluster:
    return cluster
