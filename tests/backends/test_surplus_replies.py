"""A reply that nobody asked for is never taken for the reply to a later request."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from both_flavours import Flavour
from fault_scene import new_name
from servers.talker import Talker

from lockfast import LockError

REDIS = b"%2\r\n+server\r\n+redis\r\n+version\r\n+7.0.0\r\n"
SURPLUS = [b":77777\r\n", b"not RESP\r\n", b"$9\r\nhalf"]
OWN = b":1\r\n"


@pytest.fixture
def server() -> Iterator[Callable[..., Talker]]:
    """Return a function that starts a server; it is given its replies to HELLO and to others."""
    started: list[Talker] = []

    def start(hello: bytes, reply: bytes) -> Talker:
        started.append(
            Talker("redis", answer=lambda request: hello if b"HELLO" in request else reply)
        )
        return started[-1]

    yield start
    for one in started:
        one.close()


@pytest.mark.parametrize("surplus", SURPLUS)
def test_a_reply_that_comes_with_the_handshake_grants_nothing(flavour: Flavour, server, surplus):
    locks = flavour.locks(server(REDIS + surplus, OWN).url)

    with suppress(LockError):
        assert locks.lock(new_name(), renew=False).acquire(timeout=1.0).token == 1


@pytest.mark.parametrize("surplus", SURPLUS)
def test_a_second_reply_to_a_request_grants_nothing(flavour: Flavour, server, surplus):
    """The next request goes out on another connection, and gets a reply of its own."""
    locks = flavour.locks(server(REDIS, OWN + surplus).url, request_timeout=1.0)

    for _ in range(3):
        with suppress(LockError):
            assert locks.lock(new_name(), renew=False).acquire(timeout=5.0).token == 1
