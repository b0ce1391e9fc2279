"""A reply of an unexpected shape raises an error, and its connection is not used again.

The server's true reply follows the odd one on the same connection. A client that used the
connection again would take the true reply for the reply to another request.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import pytest
from servers import memcached, redis

from lockfast import BackendMisbehaved, BackendUnavailable
from lockfast_challenge.processes import eventually
from lockfast_challenge.servers.proxy import Proxy

SERVERS = {"redis": redis.shared_server, "memcached": memcached.shared_server}


class Odd(NamedTuple):
    """A verb, bytes that identify its request, and a reply that no server gives to that request."""

    scheme: str
    verb: str
    which: bytes
    words: bytes


ODD = [
    Odd("redis", "acquire", b"EVALSHA", b"+OK\r\n"),
    Odd("redis", "acquire", b"EVALSHA", b"_\r\n"),
    Odd("redis", "acquire", b"EVALSHA", b"*2\r\n:1\r\n:2\r\n"),
    Odd("redis", "acquire", b"EVALSHA", b"HTTP/1.1 200 OK\r\n"),
    Odd("redis", "inspect", b"EVALSHA", b":7\r\n"),
    Odd("redis", "survey", b"SCAN", b":7\r\n"),
    Odd("memcached", "acquire", b"ms ", b"MN\r\n"),
    Odd("memcached", "acquire", b"ms ", b"END\r\n"),
    Odd("memcached", "acquire", b"ms ", b"OK\r\nHD c1\r\n"),
    Odd("memcached", "acquire", b"ms ", b"HTTP/1.1 200 OK\r\n"),
    Odd("memcached", "inspect", b"mg ", b"HD c1\r\n"),
    Odd("memcached", "survey", b"lru_crawler", b"HD\r\n"),
    Odd("memcached", "diagnose", b"stats", b"MN\r\n"),
]


def acquire(locks: Any) -> bool:
    lease = locks.lock("door").try_acquire()
    lease.check()
    lease.release()
    return True


VERBS: dict[str, Callable[[Any], Any]] = {
    "acquire": acquire,
    "inspect": lambda locks: len(locks.inspect("kept").holders),
    "survey": lambda locks: [one.name for one in locks.survey()],
    "diagnose": lambda locks: len(list(locks.diagnose())),
}


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: f"{odd.scheme} {odd.verb} {odd.words!r}")
def test_an_odd_answer_is_an_error_and_the_next_one_is_read_from_another_connection(
    flavour, outliving, namespace, odd
):
    proxy = outliving.enter_context(Proxy(SERVERS[odd.scheme]().port, scheme=odd.scheme))
    locks = flavour.locks(proxy.url, namespace=namespace, ttl=60.0, request_timeout=20.0)
    kept = locks.lock("kept").acquire(timeout=30.0)
    verb = partial(VERBS[odd.verb], locks)
    seen: list[Any] = []  # the verb is repeated while memcached is busy listing keys
    eventually(lambda: not seen.append(verb()), despite=(BackendUnavailable,))
    expected = seen[0]
    proxy.inject_before_reply_to(odd.which, odd.words)

    with pytest.raises(BackendMisbehaved, match="cannot be read"):
        verb()

    eventually(lambda: insisted(verb) == expected, what="the server's own answer is read")
    kept.check()


def insisted(verb: Callable[[], Any]) -> Any:
    """Return the verb's result, or None if memcached is still busy listing keys."""
    try:
        return verb()
    except BackendUnavailable:
        return None
