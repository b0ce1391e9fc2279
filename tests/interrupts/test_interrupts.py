"""An interrupted acquire, release, block or close leaves nothing behind.

This includes a signal handler's exception, raised wherever CPython checks for signals. This is the
short form; the long one takes every place (see `hammer.py`).
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest
import servers.etcd as etcd_servers
import servers.mariadb as mariadb_servers
import servers.memcached as memcached_servers
import servers.postgresql as postgresql_servers
import servers.redis as redis_servers
import servers.redlock as redlock_servers
import servers.zookeeper as zookeeper_servers
from hammer import hammer, hammer_close
from lengths import length
from scenes import SCENES, scenes_of

from lockfast_challenge.processes import eventually

# Python closes a socket that was dropped, and warns about it.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

GOODBYES = 5.0
"""Maximum seconds for abandoned sessions to say goodbye."""

PLACES = length(40, long=240)
"""Number of places in each scene, spread evenly."""


def mariadb_url() -> str:
    """Return the URL of a database that exists."""
    server = mariadb_servers.shared_server()
    server.run("CREATE DATABASE IF NOT EXISTS test")
    return server.url()


def redlock_url() -> str:
    """Return the URL of five nodes that count; the timeout of a busy node is not under test."""
    nodes = redlock_servers.shared_nodes()
    nodes.found(["lockfast"])
    return f"{nodes.url}?node_timeout=5"


STORES = {
    "memory": lambda folder: f"memory://{folder.name}",
    "sqlite": lambda folder: f"sqlite://{folder}/locks.db",
    "redis": lambda _: redis_servers.shared_server().url,
    "mariadb": lambda _: mariadb_url(),
    "memcached": lambda _: memcached_servers.shared_server().url,
    "postgresql": lambda _: postgresql_servers.shared_server().url(),
    "redlock": lambda _: redlock_url(),
    "etcd": lambda _: etcd_servers.shared_server().url,
    "zookeeper": lambda _: zookeeper_servers.shared_server().url,
}


@pytest.fixture
def url(request, tmp_path) -> Iterator[str]:
    others = set(threading.enumerate())
    yield STORES[request.param](tmp_path)
    # Collect garbage here, and not during another test. Threads that are still closing connections
    # keep objects alive, so wait for them first.
    with suppress(AssertionError):
        eventually(lambda: set(threading.enumerate()) <= others, within=GOODBYES)
    gc.collect()


@pytest.mark.parametrize(
    ("url", "scene"),
    [(store, scene) for store in STORES for scene in scenes_of(store)],
    indirect=["url"],
)
def test_an_interrupt_leaves_nothing_held_nothing_waiting_and_a_client_that_works(url, scene):
    hammer(url, SCENES[scene], at_most=PLACES)


@pytest.mark.parametrize("url", STORES, indirect=True)
def test_a_close_that_was_interrupted_can_be_repeated(url):
    hammer_close(url, at_most=PLACES)
