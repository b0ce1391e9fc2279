"""The server that the doctor examines, unless a test starts its own."""

from __future__ import annotations

import pytest
from servers.zookeeper import shared_server

from lockfast_challenge.servers.zookeeper import ZooKeeperServer


@pytest.fixture
def server() -> ZooKeeperServer:
    return shared_server()
