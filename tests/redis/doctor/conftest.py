"""A server of its own for each test, since each test spoils its settings."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from both_flavours import FLAVOURS, Flavour
from redis_servers import RedisServer

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


@pytest.fixture(name="eventually")
def _eventually() -> Callable[..., None]:
    def eventually(has_happened: Callable[[], object], *, within: float = 10.0) -> None:
        deadline = time.monotonic() + within
        while not has_happened():
            assert time.monotonic() < deadline, f"has not happened in {within} s"
            time.sleep(0.005)

    return eventually
