"""A real memcached for each test, since most tests break it, and a proxy in front of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from both_flavours import Flavour
from refusals import Refusals

from lockfast.backends.memcached._async.backend import AsyncMemcachedBackend
from lockfast.backends.memcached._sync.backend import MemcachedBackend
from lockfast.errors import OutcomeUnknown
from lockfast_challenge.servers.memcached import MemcachedServer
from lockfast_challenge.servers.proxy import Proxy

PATIENCE = 20.0
"""A timeout in seconds that only a hang reaches."""


class BlockingBackend:
    """A backend of either flavour without a client, used through blocking calls."""

    def __init__(self, flavour: Flavour, url: str, namespace: str) -> None:
        kind = MemcachedBackend if flavour.name == "sync" else AsyncMemcachedBackend
        self.flavour = flavour
        self.inner: Any = flavour.call(
            lambda: kind(url=url, location=url, clock=flavour.clock, namespace=namespace)
        )

    def call(self, verb: str, *arguments: Any, within: float = PATIENCE, **options: Any) -> Any:
        """Return the result of a verb of the backend."""
        deadline = self.flavour.clock.now() + within
        return self.flavour.call(
            getattr(self.inner, verb), *arguments, deadline=deadline, **options
        )

    def insist(self, verb: str, *arguments: Any, **options: Any) -> Any:
        """Return a verb's result, repeated if a connection broke, as a client does."""
        for _ in range(3):
            with suppress(OutcomeUnknown):
                return self.call(verb, *arguments, **options)
        return self.call(verb, *arguments, **options)

    def close(self) -> None:
        self.flavour.call(self.inner.close if self.flavour.name == "sync" else self.inner.aclose)


@pytest.fixture
def server(outliving) -> MemcachedServer:
    return outliving.enter_context(MemcachedServer())


@pytest.fixture
def proxy(server, outliving) -> Proxy:
    return outliving.enter_context(Proxy(server.port, scheme="memcached"))


@pytest.fixture
def backend(flavour, server, namespace) -> Iterator[Callable[..., BlockingBackend]]:
    """Return a function that opens backends, which are closed before their flavour."""
    opened: list[BlockingBackend] = []

    def open_one(url: str = server.url) -> BlockingBackend:
        opened.append(BlockingBackend(flavour, url, namespace))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()


@pytest.fixture
def refusal(flavour, caplog) -> Refusals:
    """Return a callable that provokes a refusal, checks all output, and returns the error."""
    return Refusals([flavour], caplog, within=5.0)


@pytest.fixture
def scheme() -> str:
    return "memcached"
