"""Clients of both flavours that a test can drive alike, and a resource that checks tokens."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest
from servers.redis import RedisServer
from servers.redis_cluster import ClusterServers, shared_cluster
from servers.redis_divided_cluster import DividedCluster, shared_divided_cluster
from servers.redis_sentinels import Sentinels, shared_sentinels

from holdfast import AsyncLocks, LockError, Locks
from holdfast.model import Event, Renewed


class Driver:
    """A client of either flavour: every call blocks, or is begun and gives a future."""

    def __init__(
        self, flavour: str, make: Callable[[type, Any], Any], *, namespace: str = "holdfast"
    ) -> None:
        self.flavour = flavour
        self.namespace = namespace
        self._threads = ThreadPoolExecutor(8)
        self._loop = asyncio.new_event_loop() if flavour == "asyncio" else None
        if self._loop is not None:
            self._thread = threading.Thread(target=self._loop.run_forever)
            self._thread.start()
        self.renewals = 0
        self.locks = make(Locks if self._loop is None else AsyncLocks, self._note)

    def _note(self, event: Event) -> None:
        self.renewals += isinstance(event, Renewed)

    def begin(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Future[Any]:
        if self._loop is None:
            return self._threads.submit(function, *args, **kwargs)

        async def call() -> Any:
            return await function(*args, **kwargs)

        return asyncio.run_coroutine_threadsafe(call(), self._loop)

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
        if self._loop is None:
            return [one.name for one in self.locks.survey(prefix)]

        async def names() -> list[str]:
            return [one.name async for one in self.locks.survey(prefix)]

        return self.call(names)

    def waiting(self, name: str) -> int:
        return len(self.call(self.locks.inspect, name).line)

    def is_at(self, server: RedisServer) -> bool:
        """Tell whether what it is asked for now goes to this server."""
        try:
            probe = self.acquire(os.urandom(8).hex(), ttl=2.0, renew=False)
        except LockError:
            return False  # it has yet to find it
        with server.client() as client:
            return bool(client.exists(f"{self.namespace}:{{{probe.name}}}:door"))

    def close(self) -> None:
        self.call(self.locks.close if self._loop is None else self.locks.aclose)
        self._threads.shutdown()
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


class Resource:
    """What the locks protect: it takes nothing that carries an older token."""

    def __init__(self) -> None:
        self.seen: dict[str, int] = {}

    def write(self, name: str, token: int) -> bool:
        if token < self.seen.get(name, 0):
            return False
        self.seen[name] = token
        return True


@pytest.fixture
def resource() -> Resource:
    return Resource()


@pytest.fixture
def namespace() -> str:
    return os.urandom(8).hex()


@pytest.fixture
def drivers(namespace: str) -> Iterator[Callable[..., list[Driver]]]:
    """Give clients of a URL, one of each flavour; they are closed when the test ends."""
    with ExitStack() as stack:

        def make(url: str, **options: Any) -> list[Driver]:
            found = []
            for flavour in ("sync", "asyncio"):
                driver = Driver(
                    flavour,
                    lambda kind, note: kind(url, namespace=namespace, on_event=note, **options),
                    namespace=namespace,
                )
                stack.callback(driver.close)
                found.append(driver)
            return found

        yield make


@pytest.fixture
def sentinels() -> Sentinels:
    return shared_sentinels()


@pytest.fixture
def own_sentinels() -> Iterator[Sentinels]:
    """Servers of this test alone: what it breaks takes ten seconds to heal, and one to start."""
    with Sentinels() as found:
        yield found


@pytest.fixture
def cluster() -> ClusterServers:
    found = shared_cluster()
    found.heal()
    return found


@pytest.fixture
def divided() -> DividedCluster:
    """Give a cluster whose nodes can be cut off from each other."""
    found = shared_divided_cluster()
    found.heal()
    return found
