"""The doctor's findings on servers that a test has spoilt."""

from __future__ import annotations

import pytest
from servers.zookeeper import shared_server

from lockfast_challenge.servers.zookeeper import ZooKeeperServer


@pytest.fixture
def server() -> ZooKeeperServer:
    return shared_server()
