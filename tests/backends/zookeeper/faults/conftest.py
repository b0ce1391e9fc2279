"""Real servers that are killed, frozen and cut from each other; clients on each of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from servers.zookeeper import shared_ensemble, shared_server
from servers.zookeeper_requests import ZooKeeperProxy

from lockfast.challenge.servers.proxy import Proxy
from lockfast.challenge.servers.zookeeper import Ensemble, ZooKeeperServer
from lockfast.challenge.servers.zookeeper_partitions import CuttableEnsemble


@pytest.fixture
def server() -> ZooKeeperServer:
    return shared_server()


@pytest.fixture(scope="module")
def module_server() -> Iterator[ZooKeeperServer]:
    with ZooKeeperServer() as one:
        yield one


@pytest.fixture
def own_server(module_server, outliving) -> Iterator[ZooKeeperServer]:
    """A server that nobody else uses now: its figures are the test's own, and it may break."""
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
    """Three members, all well when the test begins, and again when its clients close."""
    one = shared_ensemble().heal()
    yield one
    one.heal()


@pytest.fixture(scope="module")
def module_members(request) -> Iterator[CuttableEnsemble]:
    with CuttableEnsemble(settings={"syncLimit": request.module.SYNC_LIMIT}) as one:
        yield one


@pytest.fixture
def cuttable(module_members, outliving) -> Iterator[CuttableEnsemble]:
    """Members that wait for each other as long as the file says; whole at both ends of a test."""
    yield module_members.heal()
    module_members.heal()


@pytest.fixture
def members(ensemble) -> Ensemble:
    return ensemble
