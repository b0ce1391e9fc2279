"""Real servers that are killed, frozen and cut from each other; clients on each of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from both_flavours import FLAVOURS, Flavour, number_waiting
from eventually import eventually
from puppets import CLIENT, Stage
from servers.proxy import Proxy
from servers.zookeeper import Ensemble, ZooKeeperServer, shared_ensemble, shared_server
from servers.zookeeper_requests import ZooKeeperProxy

from holdfast import StaleToken
from holdfast.model import Event
from holdfast.runtime.clock import Clock


class Guarded:
    """A resource that refuses a write with a smaller token than it has seen of that name."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}

    def write(self, name: str, token: int) -> None:
        seen = self._seen.get(name, 0)
        if token < seen:
            raise StaleToken(f"{token} after {seen}", token=token, seen=seen)
        self._seen[name] = token


class Diary:
    """A hook that keeps the events it is told, and when."""

    def __init__(self) -> None:
        self._clock = Clock()
        self.entries: list[tuple[float, str, Event]] = []

    def __call__(self, event: Event) -> None:
        self.entries.append((self._clock.now(), type(event).__name__, event))

    def kinds(self) -> list[str]:
        return [kind for _, kind, _ in self.entries]

    def time_of(self, kind: str) -> float:
        """Return when such a thing was first told; hooks are called after the lease is told."""
        eventually(lambda: kind in self.kinds(), what=kind)
        return next(at for at, one, _ in self.entries if one == kind)

    def count(self, kind: str) -> int:
        return self.kinds().count(kind)

    def until_renewed(self, times: int = 1) -> None:
        """Wait until so many renewals more have been answered."""
        before = self.count("Renewed")
        eventually(lambda: self.count("Renewed") >= before + times, what="it is renewed")


class Scene:
    """One flavour's part where a fault hits both at once: who holds, and who waits behind."""

    def __init__(self, flavour: Flavour) -> None:
        self.flavour = flavour
        self.diary = Diary()
        self.name = _new_name()

    def hold(self, url: str, **options: Any) -> None:
        """Take the lock, and keep a diary of it."""
        self.locks = self.flavour.locks(url, on_event=self.diary, **options)
        self.lock = self.locks.lock(self.name)
        self.lease = self.lock.acquire()

    def wait_behind(self, url: str, **options: Any) -> None:
        """Let another client wait for it; return once it stands in line and knows it.

        Its node is there before it has been told so, and watches who is in front of it.
        """
        self.start_waiting(url, **options)
        watcher = self.flavour.locks(url)
        eventually(lambda: watcher.inspect(self.name).line, what="it waits")
        eventually(lambda: number_waiting(self.waiting_client), what="it was told to wait")

    def start_waiting(self, url: str, **options: Any) -> None:
        """Let another client want it."""
        self.waiting_client = self.flavour.locks(url, **options)
        lock = self.waiting_client.lock(self.name)
        self.waiter = self.flavour.start(self._timed_acquire, lock)

    def _timed_acquire(self, lock: Any) -> tuple[Any, float]:
        return lock.acquire(timeout=40), self.flavour.clock.now()

    def waiting(self) -> int:
        """Return how many stand in line, as the holder's client sees it."""
        return len(self.locks.inspect(self.name).line)

    def is_passed_on(self) -> bool:
        """Whether the lease was never lost, and is had by the one who waits, once released."""
        self.lease.check()
        assert not self.waiter.done()
        self.lease.release()
        successor, _ = self.waiter.result(10)
        assert successor.token > self.lease.token
        return self.diary.count("Lost") == 0


@pytest.fixture
def outliving() -> Iterator[ExitStack]:
    """What closes after the clients: one that finds nobody there waits for its goodbye."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture(params=FLAVOURS)
def flavour(request, outliving) -> Iterator[Flavour]:
    one = Flavour(request.param)
    yield one
    one.close()


@pytest.fixture
def scenes(outliving) -> Iterator[list[Scene]]:
    """One for each flavour, for faults that take long."""
    flavours = [Flavour(one) for one in FLAVOURS]
    yield [Scene(one) for one in flavours]
    for one in flavours:
        one.close()


def _new_name() -> str:
    return f"door-{os.urandom(4).hex()}"


@pytest.fixture
def name() -> str:
    """A name of this test alone: the servers are shared."""
    return _new_name()


@pytest.fixture
def server() -> ZooKeeperServer:
    return shared_server()


@pytest.fixture(scope="module")
def module_server() -> Iterator[ZooKeeperServer]:
    with ZooKeeperServer() as one:
        yield one


@pytest.fixture
def own_server(module_server, outliving) -> Iterator[ZooKeeperServer]:
    """A server that nobody else uses now: its figures are the test's own, and it may break."""
    if not module_server.is_running:
        module_server.start()
    yield module_server
    if module_server.is_running:
        module_server.resume()


@pytest.fixture
def proxy(server, outliving) -> Iterator[Proxy]:
    one = outliving.enter_context(ZooKeeperProxy(server.port))
    yield one
    one.accept()
    one.let_through()


@pytest.fixture
def ensemble(outliving) -> Iterator[Ensemble]:
    """Three members, all well when the test begins, and again when its clients close."""
    one = shared_ensemble().heal()
    yield one
    one.heal()


@pytest.fixture
def puppet(tmp_path) -> Iterator[Stage]:
    stage = Stage(tmp_path, CLIENT)
    yield stage
    stage.clear_away()


@pytest.fixture
def guarded() -> Guarded:
    return Guarded()


@pytest.fixture
def diary() -> Diary:
    return Diary()


class NameNode:
    """A name on the shared server, seen over a way that is not broken."""

    def __init__(self, flavour: Flavour, server: ZooKeeperServer, name: str) -> None:
        self.name = name
        self._flavour = flavour
        self._server = server
        self._watcher = flavour.locks(server.url)

    def line(self) -> tuple[list[int | None], int]:
        """Return the holders' tokens, and how many wait."""
        found = self._watcher.inspect(self.name)
        return [one.token for one in found.holders], len(found.line)

    def until(self, tokens: list[int | None], waiting: int) -> None:
        """Wait until it is held by these, and so many wait."""
        eventually(
            lambda: self.line() == (tokens, waiting), what=f"held by {tokens}, {waiting} wait"
        )

    def elsewhere(self, **options: Any) -> Any:
        """Return the lock, as a client of its own sees it."""
        return self._flavour.locks(self._server.url, **options).lock(self.name)


@pytest.fixture
def door(flavour, server, name) -> NameNode:
    return NameNode(flavour, server, name)
