"""A server of its own for each test, since each test spoils its settings."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lockfast.challenge.servers.redis import RedisServer


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
    """The usual one: what a user may do is said of it."""
    return "lockfast"
