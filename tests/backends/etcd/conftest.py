"""Fixtures for the etcd tests: transports of both flavours, and a server that the tests share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from backends.etcd.transports import OpenWire
from servers.etcd import shared_server


@pytest.fixture
def scheme() -> str:
    return "etcd"


@pytest.fixture
def server():
    return shared_server()


@pytest.fixture
def wire_to(flavour) -> Iterator[Callable[..., OpenWire]]:
    """Return a function that opens a transport to a URL, and closes it when the test ends."""
    with ExitStack() as stack:

        def wire_to(url: str, **options: Any) -> OpenWire:
            one = OpenWire(flavour, url, **options)
            stack.callback(one.close)
            return one

        yield wire_to


@pytest.fixture
def key(namespace) -> bytes:
    """A key that only this test uses."""
    return namespace.encode()
