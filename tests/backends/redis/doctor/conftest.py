"""A server of its own for each test, since each test spoils its settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from both_flavours import FLAVOURS, Flavour
from servers.redis import RedisServer

from holdfast import Finding


@pytest.fixture(params=FLAVOURS)
def flavour(request) -> Iterator[Flavour]:
    one = Flavour(request.param)
    yield one
    one.close()


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with RedisServer() as one:
        yield one


@pytest.fixture
def admin(server):
    with server.client() as client:
        yield client


@pytest.fixture
def finding(flavour, server) -> Callable[..., Finding]:
    """Return the one finding on a subject."""

    def found(subject: str, url: str = server.url) -> Finding:
        [one] = [one for one in flavour.locks(url).diagnose() if one.subject == subject]
        return one

    return found
