"""A host with several addresses, of which only the second works."""

from __future__ import annotations

import gc
import socket
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest
from both_flavours import Flavour, each_flavour
from servers import etcd, memcached, redis

from lockfast import BackendUnavailable, ConfigurationError, Locks
from lockfast_challenge.servers.proxy import Proxy

NAME = "several.test"
FIRST, SECOND = "127.0.0.2", "127.0.0.1"
PATIENCE = 4.0
"""The request timeout in seconds; an address that is silent takes half of it."""

STORES = {
    "redis": redis.shared_server,
    "memcached": memcached.shared_server,
    "etcd": etcd.shared_server,
}


@pytest.fixture(params=STORES)
def proxy(request) -> Iterator[Proxy]:
    """A proxy at the second address, in front of a real server, so that connections can be cut."""
    server = STORES[request.param]()
    with Proxy(server.port, scheme=request.param) as one:
        yield one


@pytest.fixture(autouse=True)
def name_service(monkeypatch) -> list[str]:
    """Let the name service know one more host; returns the addresses, which a test may change."""
    addresses = [FIRST, SECOND]
    ask = socket.getaddrinfo

    def answer(host: Any, port: Any, *rest: Any, **options: Any) -> list[Any]:
        if host != NAME:
            return ask(host, port, *rest, **options)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port)) for one in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    return addresses


class Obstacle:
    """What is at the first address; counts the connections that it accepted."""

    def __init__(self, port: int, answer: bytes) -> None:
        self.accepted = 0
        self._answer = answer
        self._listener = socket.create_server((FIRST, port))
        self.port: int = self._listener.getsockname()[1]
        self._connections: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.accepted += 1
                self._connections.append(connection)
                if self._answer:
                    connection.sendall(self._answer)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        for one in (self._listener, *self._connections):
            one.close()


def nothing(port: int) -> ExitStack:
    """Nobody listens, so connections are refused."""
    return ExitStack()


def swallowed(port: int) -> ExitStack:
    """The queue of a listener is full, so the kernel drops what asks for a connection."""
    stack = ExitStack()
    listener = stack.enter_context(socket.socket())
    listener.bind((FIRST, port))
    listener.listen(0)
    for _ in range(4):
        one = stack.enter_context(socket.socket())
        one.setblocking(False)
        with suppress(BlockingIOError):
            one.connect((FIRST, port))
    return stack


def silent(port: int) -> ExitStack:
    """Connections are accepted, and never answered."""
    stack = ExitStack()
    stack.callback(Obstacle(port, b"").close)
    return stack


def another_protocol(port: int) -> ExitStack:
    stack = ExitStack()
    stack.callback(Obstacle(port, b"HTTP/1.1 400 Bad Request\r\n\r\n").close)
    return stack


@pytest.fixture
def flavours() -> Iterator[list[Flavour]]:
    """Both flavours, which share the wait for an address that is silent."""
    with each_flavour() as found:
        yield found


@pytest.mark.parametrize("obstacle", [nothing, swallowed, silent, another_protocol])
def test_the_next_address_is_tried(
    proxy: Proxy,
    flavours: list[Flavour],
    namespace: str,
    obstacle: Callable[[int], ExitStack],
) -> None:
    """Whatever is wrong at one address, the store is reached at another one in time."""
    url = proxy.url.replace(SECOND, NAME)
    with obstacle(proxy.port):
        opened = [one.locks(url, namespace=namespace, request_timeout=PATIENCE) for one in flavours]
        taking = [
            flavour.start(locks.lock(flavour.name).acquire, timeout=45)
            for flavour, locks in zip(flavours, opened, strict=True)
        ]

        for lease in [one.result(60) for one in taking]:
            lease.release()


def test_the_address_that_answered_is_tried_first_next_time(
    proxy: Proxy, flavours: list[Flavour], namespace: str
) -> None:
    """Otherwise each new connection would wait for the address that does not work."""
    url = proxy.url.replace(SECOND, NAME)
    for flavour in flavours:
        with ExitStack() as stack:
            obstacle = Obstacle(proxy.port, b"HTTP/1.1 400 Bad Request\r\n\r\n")
            stack.callback(obstacle.close)
            locks = flavour.locks(url, namespace=namespace)
            locks.lock("door").acquire(timeout=45).release()
            assert obstacle.accepted > 0

            before = obstacle.accepted
            proxy.reset()
            locks.lock("door").acquire(timeout=45).release()

            assert obstacle.accepted == before


@pytest.mark.parametrize("order", [(FIRST, SECOND), (SECOND, FIRST)])
@pytest.mark.parametrize("scheme", ["redis", "memcached"])
def test_a_mistake_at_one_address_is_not_hidden_by_an_outage_at_another(
    flavour: Flavour, name_service: list[str], scheme: str, order: tuple[str, str]
) -> None:
    """An operator has to know of the address that waiting does not cure."""
    name_service[:] = order
    obstacle = Obstacle(0, b"HTTP/1.1 400 Bad Request\r\n\r\n")
    locks = flavour.locks(f"{scheme}://{NAME}:{obstacle.port}", request_timeout=PATIENCE)

    with pytest.raises(ConfigurationError, match="is this the right port"):
        locks.lock("door").acquire(timeout=45)

    obstacle.close()


@pytest.mark.parametrize("scheme", STORES)
def test_a_failed_connection_leaves_nothing_to_the_garbage_collector(scheme):
    """In threads, the frames of its error may have a socket that an interrupt left open."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]

    def failure(locks: Locks) -> weakref.ref[BaseException]:
        try:
            locks.inspect("door")
        except BackendUnavailable as error:
            return weakref.ref(error)
        raise AssertionError("nothing listens there")

    with Locks(f"{scheme}://127.0.0.1:{port}") as locks:
        failure(locks)
        gc.collect()
        gc.disable()
        try:
            assert failure(locks)() is None
        finally:
            gc.enable()
