"""A server that sends without end and never replies: every call still ends at its deadline."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest
from both_flavours import Flavour
from fault_scene import new_name
from servers import etcd, memcached, redis
from servers.hostile import Hostile, Hostility

from lockfast import BackendUnavailable, LockError, OutcomeUnknown
from lockfast.backends.etcd.http2 import frames
from lockfast.backends.etcd.http2.frames import frame
from lockfast_challenge.processes import eventually
from lockfast_challenge.servers.redlock import RedlockNodes

REQUEST_TIMEOUT = 0.2
HANGS = 60.0
"""A time in seconds that only a call without a working deadline exceeds, however busy the machine
is."""

RESPONSE = b"\x88" + frames.literal(b"content-type", b"application/grpc")
ETCD = {
    "frames of an unknown kind": frame(0xFA, 0, 0, b""),
    "large frames of an unknown kind": frame(0xFA, 0, 0, b"x" * 16000),
    "pings": frame(frames.PING, 0, 0, bytes(8)),
    "answers to pings": frame(frames.PING, frames.ACK, 0, bytes(8)),
    "windows": frame(frames.WINDOW_UPDATE, 0, 0, bytes(4)),
    "settings": frame(frames.SETTINGS, 0, 0),
    "priorities": frame(2, 0, 1, b"\0\0\0\0\x10"),
    "data of another call": frame(frames.DATA, 0, 99, b"x" * 1000),
    "headers of another call": frame(frames.HEADERS, frames.END_HEADERS, 99, b"\x88"),
    "headers of this call": frame(frames.HEADERS, frames.END_HEADERS, 1, RESPONSE),
    "empty data of this call": frame(frames.DATA, 0, 1, b""),
}
PUSHES = b">2\r\n$5\r\nhello\r\n$5\r\nworld\r\n"
ARRAYS = b"*1000000000\r\n:1\r\n"
LINE = b"+" + b"x" * 1000
BLOB = b"$1000000000\r\n" + b"x" * 1000
REDIS = {
    "pushes while connecting": (b"HELLO", PUSHES),
    "a blob without an end while connecting": (b"HELLO", BLOB),
    "a line without an end while connecting": (b"HELLO", LINE),
    "pushes": (b"EVALSHA", PUSHES),
    "arrays in arrays": (b"EVALSHA", ARRAYS),
    "a blob without an end": (b"EVALSHA", BLOB),
}
MEMCACHED = {
    "statistics while connecting": (b"mn", b"STAT x 1\r\n"),
    "statistics": (b"mg ", b"STAT x 1\r\n"),
    "keys": (b"mg ", b"key=x exp=-1\r\n"),
}
FLOODS = [
    *(("etcd", kind, b"/etcdserverpb", flood) for kind, flood in ETCD.items()),
    *(("redis", kind, *flood) for kind, flood in REDIS.items()),
    ("redis+sentinel", "a line without an end", b"SENTINEL", LINE),
    *(("memcached", kind, *flood) for kind, flood in MEMCACHED.items()),
]
SERVERS = {
    "etcd": etcd.shared_server,
    "redis": redis.shared_server,
    "redis+sentinel": redis.shared_server,  # asked as a sentinel, it only floods
    "memcached": memcached.shared_server,
}


def close(flavour: Flavour, locks: Any) -> None:
    """Close a client within the time limit, although it says goodbye to a flooding server."""
    flavour.start(locks.close if flavour.name == "sync" else locks.aclose).result(HANGS)


@pytest.mark.parametrize(
    ("scheme", "which", "flood"),
    [pytest.param(scheme, *rest, id=f"{scheme}: {kind}") for scheme, kind, *rest in FLOODS],
)
def test_a_server_that_talks_without_end_does_not_keep_a_call_beyond_its_deadline(
    flavour, scheme, which, flood
):
    """An acquire ends at its deadline, and closing the client afterwards is not delayed either."""
    port = SERVERS[scheme]().port
    with Hostile(port, scheme=scheme) as server:
        server.turn(Hostility("flood", flood), at=which)
        url = f"{server.url}/main" if "sentinel" in scheme else server.url
        locks = flavour.locks(url, request_timeout=REQUEST_TIMEOUT)

        def floods() -> bool:
            asked = flavour.start(locks.lock(new_name()).acquire, timeout=0.01)
            assert isinstance(asked.exception(HANGS), LockError)
            return server.has_struck.is_set()

        # Repeated: on a busy machine the first attempt may be spent on connecting.
        eventually(floods, what="a request came as far as the flood")
        close(flavour, locks)


def test_nodes_of_redlock_that_talk_without_end_do_not_keep_a_call_beyond_its_deadline(
    flavour, outliving, namespace
):
    """Two of three nodes flood, so a call that needs a majority has to wait for one of them."""
    servers = outliving.enter_context(RedlockNodes(3))
    servers.found([namespace])
    with ExitStack() as stack:
        nodes = [stack.enter_context(Hostile(one.port, scheme="redis")) for one in servers.servers]
        addresses = ",".join(one.url.removeprefix("redis://") for one in nodes)
        locks = flavour.locks(f"redlock://{addresses}", namespace=namespace, request_timeout=20.0)
        eventually(
            lambda: locks.lock("warm").acquire(timeout=HANGS).release() is None,
            what="all is well",
            despite=(BackendUnavailable, OutcomeUnknown),
        )
        flavour.give_up_after(REQUEST_TIMEOUT)
        for one in nodes[:2]:
            one.turn(Hostility("flood", PUSHES))

        asked = flavour.start(locks.lock("door").acquire, timeout=0.01)

        assert isinstance(asked.exception(HANGS), LockError)
        close(flavour, locks)


def test_a_holder_learns_of_its_loss_while_the_server_talks_without_end(flavour):
    port = etcd.shared_server().port
    flood = ETCD["frames of an unknown kind"]
    with Hostile(port, scheme="etcd") as server:
        locks = flavour.locks(server.url, ttl=2.0, request_timeout=20.0)
        lease = locks.lock(new_name()).acquire(timeout=HANGS)
        flavour.give_up_after(REQUEST_TIMEOUT)

        server.turn(Hostility("flood", flood))

        assert lease.lost.wait(HANGS)
        close(flavour, locks)
