"""Fixtures for the tests of every store; each store's `server` fixture is the server under test."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from both_flavours import FLAVOURS, Flavour, each_flavour
from diary import Diary
from fault_scene import Scene, WatchedName, new_name
from guarded import Guarded
from puppets import CLIENT, Stage
from servers.talker import Talker

from lockfast import Finding


@pytest.fixture
def outliving() -> Iterator[ExitStack]:
    """Resources that close after the clients, because a client closes slowly without its server."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture(params=FLAVOURS)
def flavour(request, outliving) -> Iterator[Flavour]:
    one = Flavour(request.param)
    yield one
    one.close()


@pytest.fixture
def scenes(outliving) -> Iterator[list[Scene]]:
    """One scene per flavour, so that both flavours share the wait for a slow fault."""
    with each_flavour() as flavours:
        yield [Scene(one) for one in flavours]


@pytest.fixture
def name() -> str:
    """A name that only this test uses, because the tests share servers."""
    return new_name()


@pytest.fixture
def namespace() -> str:
    """A namespace that only this test uses, because the tests share servers."""
    return f"test-{os.urandom(4).hex()}"


@pytest.fixture
def door(flavour, server, name) -> WatchedName:
    return WatchedName(flavour, server, name)


@pytest.fixture
def diary() -> Diary:
    return Diary()


@pytest.fixture
def guarded() -> Guarded:
    return Guarded()


@pytest.fixture
def puppet(tmp_path) -> Iterator[Stage]:
    """Processes with one client each; the test can kill, freeze and fork them."""
    stage = Stage(tmp_path, CLIENT)
    yield stage
    stage.clear_away()


@pytest.fixture
def talker(scheme) -> Iterator[Callable[..., Talker]]:
    """Return a function that starts a fake server, which sends whatever the test asks for."""
    with ExitStack() as stack:

        def start(**options: Any) -> Talker:
            one = Talker(scheme, **options)
            stack.callback(one.close)
            return one

        yield start


@pytest.fixture
def finding(flavour, server, namespace) -> Callable[..., Finding]:
    """Return a function that returns the doctor's only finding on a subject."""

    def found(subject: str, url: str = server.url, **options: Any) -> Finding:
        locks = flavour.locks(url, namespace=namespace, **options)
        [one] = [one for one in locks.diagnose() if one.subject == subject]
        return one

    return found
