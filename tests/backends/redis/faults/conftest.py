"""Real servers, a proxy that breaks the way to them, and processes that can be killed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from both_flavours import FLAVOURS, Flavour
from eventually import eventually
from puppets import CLIENT, Stage
from servers.proxy import Proxy
from servers.redis import RedisServer

from holdfast import StaleToken
from holdfast.backends.redis.requests import VERBS
from holdfast.backends.redis.scripts import redis_script
from holdfast.model import Event
from holdfast.runtime.clock import Clock


class Guarded:
    """A resource that refuses a write with a smaller token than it has seen."""

    def __init__(self) -> None:
        self.accepted: list[int] = []

    def write(self, token: int) -> None:
        seen = max(self.accepted, default=0)
        if token < seen:
            raise StaleToken(f"{token} after {seen}", token=token, seen=seen)
        self.accepted.append(token)


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
        eventually(lambda: kind in self.kinds())
        return next(at for at, one, _ in self.entries if one == kind)

    def count(self, kind: str) -> int:
        return self.kinds().count(kind)


@pytest.fixture(params=FLAVOURS)
def flavour(request) -> Iterator[Flavour]:
    one = Flavour(request.param)
    yield one
    one.close()


def know_the_scripts(server: RedisServer) -> None:
    """Let the server know all scripts, so that each verb is one request."""
    with server.client() as client:
        for verb in VERBS:
            client.script_load(redis_script(verb).source)


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with RedisServer() as one:
        know_the_scripts(one)
        yield one


@pytest.fixture
def proxy(server) -> Iterator[Proxy]:
    with Proxy(server.port) as one:
        yield one


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


@pytest.fixture
def line(flavour, server):
    """Look at a name over a way that is not broken: holders' tokens, and how many wait."""
    watcher = flavour.locks(server.url)

    def look(name: str) -> tuple[list[int | None], int]:
        found = watcher.inspect(name)
        return [one.token for one in found.holders], len(found.line)

    return look
