"""Real servers, a proxy that breaks connections to them, and processes that can be killed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fault_scene import seen_of

from lockfast.backends.redis.requests import SCRIPT_VERBS
from lockfast.backends.redis.scripts import redis_script
from lockfast_challenge.servers.proxy import Proxy
from lockfast_challenge.servers.redis import RedisServer


def know_the_scripts(server: RedisServer) -> None:
    """Load all scripts into the server, so that each verb is one request."""
    with server.client() as client:
        for verb in SCRIPT_VERBS:
            client.script_load(redis_script(verb).source)


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with RedisServer() as one:
        know_the_scripts(one)
        yield one


@pytest.fixture
def proxy(server) -> Iterator[Proxy]:
    with Proxy(server.port, scheme="redis") as one:
        yield one


@pytest.fixture
def line(flavour, server):
    """Return a function that inspects a name over a healthy connection.

    The function returns the holders' tokens and the number of waiters.
    """
    watcher = flavour.locks(server.url)
    return lambda name: seen_of(watcher, name)
