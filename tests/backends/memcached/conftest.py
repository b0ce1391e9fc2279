"""A real memcached for each test, since most of them break it, and a proxy before it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from both_flavours import Flavour
from refusals import Refusals

from lockfast.backends.memcached._async.backend import AsyncMemcachedBackend
from lockfast.backends.memcached._sync.backend import MemcachedBackend
from lockfast.challenge.servers.memcached import MemcachedServer
from lockfast.challenge.servers.proxy import Proxy
from lockfast.errors import OutcomeUnknown

PATIENCE = 20.0
"""What only a hang outlasts."""


class BlockingBackend:
    """A backend of either flavour with no client around it, used by blocking calls."""

    def __init__(self, flavour: Flavour, url: str, namespace: str) -> None:
        kind = MemcachedBackend if flavour.name == "sync" else AsyncMemcachedBackend
        self.flavour = flavour
        self.inner: Any = flavour.call(
            lambda: kind(url=url, location=url, clock=flavour.clock, namespace=namespace)
        )

    def call(self, verb: str, *arguments: Any, within: float = PATIENCE, **options: Any) -> Any:
        """Return what a verb answers."""
        deadline = self.flavour.clock.now() + within
        return self.flavour.call(
            getattr(self.inner, verb), *arguments, deadline=deadline, **options
        )

    def insist(self, verb: str, *arguments: Any, **options: Any) -> Any:
        """Return what a verb answers, asked again where a connection broke, as a client does."""
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
    """Give backends, and close them before their flavour is."""
    opened: list[BlockingBackend] = []

    def open_one(url: str = server.url) -> BlockingBackend:
        opened.append(BlockingBackend(flavour, url, namespace))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()


@pytest.fixture
def refusal(flavour, caplog) -> Refusals:
    """Return the error of an acquire, after a look at all that was said."""
    return Refusals([flavour], caplog, within=5.0)


@pytest.fixture
def scheme() -> str:
    return "memcached"
