"""What the doctor says of servers that a test has spoilt."""

from __future__ import annotations

import pytest
from servers.zookeeper import ZooKeeperServer, shared_server


@pytest.fixture
def server() -> ZooKeeperServer:
    return shared_server()
