"""A separate server for each test, since each test changes its settings."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lockfast_challenge.servers.redis import RedisServer


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with RedisServer() as one:
        yield one


@pytest.fixture
def admin(server):
    with server.client() as client:
        yield client


@pytest.fixture
def namespace() -> str:
    """The default namespace, for which the users' permissions are written."""
    return "lockfast"
