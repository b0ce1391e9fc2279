"""Real servers that the tests kill, freeze and cut off from each other."""

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
    """A server that one test uses at a time, so the test may break it and read its metrics."""
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
    """A cluster of three members, all healthy when the test begins and when its clients close."""
    one = shared_cluster().heal()
    yield one
    one.heal()


@pytest.fixture(scope="module")
def module_members() -> Iterator[PartitionableCluster]:
    with PartitionableCluster() as one:
        yield one


@pytest.fixture
def cuttable(module_members, outliving) -> Iterator[PartitionableCluster]:
    """A cluster whose members can be cut off from each other; it is healed around each test."""
    yield module_members.heal()
    module_members.heal()


@pytest.fixture
def members(cluster) -> EtcdCluster:
    return cluster
