"""Clients of both flavours that a test drives in the same way, and their topologies."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest
from both_flavours import FLAVOURS
from own_loop import Loop
from servers.redis_divided_cluster import DividedCluster, shared_divided_cluster
from servers.redis_sentinels import shared_sentinels

from lockfast import AsyncLocks, LockError, Locks
from lockfast.events import Event, Renewed
from lockfast_challenge.servers.redis import RedisServer
from lockfast_challenge.servers.redis_sentinel import Sentinels


class Driver:
    """A client of either flavour whose calls either block or run in the background as futures."""

    def __init__(self, flavour: str, url: str, *, namespace: str, **options: Any) -> None:
        self.flavour = flavour
        self.namespace = namespace
        self.renewals = 0
        self._threads = ThreadPoolExecutor(8)
        self._loop = Loop() if flavour == "async" else None
        kind = Locks if self._loop is None else AsyncLocks
        self.locks = kind(url, namespace=namespace, on_event=self._note, **options)

    def _note(self, event: Event) -> None:
        self.renewals += isinstance(event, Renewed)

    def begin(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Future[Any]:
        begin = self._threads.submit if self._loop is None else self._loop.begin
        return begin(function, *args, **kwargs)

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return self.begin(function, *args, **kwargs).result(30)

    def acquire(self, name: str, *, timeout: float = 20.0, **options: Any) -> Any:
        return self.call(self.locks.lock(name, **options).acquire, timeout=timeout)

    def begin_acquire(self, name: str, *, timeout: float = 45.0, **options: Any) -> Future[Any]:
        return self.begin(self.locks.lock(name, **options).acquire, timeout=timeout)

    def release(self, lease: Any) -> None:
        self.call(lease.release)

    def is_lost(self, lease: Any, *, within: float) -> bool:
        return self.call(lease.lost.wait, within)

    def survey(self, prefix: str = "") -> list[str]:
        return [one.name for one in self.call(self.locks.survey, prefix)]

    def waiting(self, name: str) -> int:
        return len(self.call(self.locks.inspect, name).line)

    def is_at(self, server: RedisServer) -> bool:
        """Return whether the client's requests now go to this server."""
        try:
            probe = self.acquire(os.urandom(8).hex(), ttl=2.0, renew=False)
        except LockError:
            return False  # the client has not found the server yet
        with server.client() as client:
            return bool(client.exists(f"{self.namespace}:{{{probe.name}}}:door"))

    def close(self) -> None:
        self.call(self.locks.close if self._loop is None else self.locks.aclose)
        self._threads.shutdown()
        if self._loop is not None:
            self._loop.stop()


@pytest.fixture
def drivers(namespace: str) -> Iterator[Callable[..., list[Driver]]]:
    """Return a function that makes one client of each flavour; all are closed at the end."""
    with ExitStack() as stack:

        def make(url: str, **options: Any) -> list[Driver]:
            found = [Driver(one, url, namespace=namespace, **options) for one in FLAVOURS]
            for one in found:
                stack.callback(one.close)
            return found

        yield make


@pytest.fixture
def sentinels() -> Sentinels:
    return shared_sentinels()


@pytest.fixture
def own_sentinels() -> Iterator[Sentinels]:
    """Servers for this test alone: new ones start in one second, broken ones heal in ten."""
    with Sentinels() as found:
        yield found


@pytest.fixture
def divided() -> DividedCluster:
    """A cluster whose nodes can be cut off from each other."""
    found = shared_divided_cluster()
    found.heal()
    return found


@pytest.fixture
def no_failover(cluster):
    """Keep every node from being replaced during the test."""
    for one in cluster.servers:
        cluster.ask(one, "CONFIG", "SET", "cluster-node-timeout", "60000")
    yield
    for one in cluster.servers:
        cluster.ask(one, "CONFIG", "SET", "cluster-node-timeout", "500")
