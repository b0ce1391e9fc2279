"""Real servers that are killed, frozen and cut off from each other, and proxies to them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from servers.zookeeper import shared_ensemble, shared_server
from servers.zookeeper_requests import ZooKeeperProxy

from lockfast_challenge.servers.proxy import Proxy
from lockfast_challenge.servers.zookeeper import Ensemble, PartitionableEnsemble, ZooKeeperServer


@pytest.fixture
def server() -> ZooKeeperServer:
    return shared_server()


@pytest.fixture(scope="module")
def module_server() -> Iterator[ZooKeeperServer]:
    with ZooKeeperServer() as one:
        yield one


@pytest.fixture
def own_server(module_server, outliving) -> Iterator[ZooKeeperServer]:
    """A server that no other test uses meanwhile, so that a test may break it or read metrics."""
    if not module_server.is_running:
        module_server.start()
    yield module_server
    if module_server.is_running:
        module_server.resume()


@pytest.fixture
def proxy(server, outliving) -> Iterator[Proxy]:
    one = outliving.enter_context(ZooKeeperProxy(server.port))
    yield one
    one.accept()
    one.let_through()


@pytest.fixture
def ensemble(outliving) -> Iterator[Ensemble]:
    """Three members; all are healthy when the test begins and after it ends."""
    one = shared_ensemble().heal()
    yield one
    one.heal()


@pytest.fixture(scope="module")
def module_members(request) -> Iterator[PartitionableEnsemble]:
    with PartitionableEnsemble(settings={"syncLimit": request.module.SYNC_LIMIT}) as one:
        yield one


@pytest.fixture
def cuttable(module_members, outliving) -> Iterator[PartitionableEnsemble]:
    """Members that can be cut off from each other, healed before and after each test.

    The members wait for a silent member as long as the `SYNC_LIMIT` of the test file says.
    """
    yield module_members.heal()
    module_members.heal()


@pytest.fixture
def members(ensemble) -> Ensemble:
    return ensemble
