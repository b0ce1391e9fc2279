"""A store that cannot be started is refused with one clear sentence."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lockfast_challenge.deployments import catalog
from lockfast_challenge.deployments.catalog import STORES, own_servers
from lockfast_challenge.servers.server import CannotStart


def test_a_store_that_is_not_known_is_refused_with_those_that_are():
    with pytest.raises(CannotStart, match=r"no servers of 'consul' to start: redis, sentinel,"):
        own_servers("consul", ttl=2.0)


def test_a_driver_that_is_not_installed_is_named_with_its_extra(monkeypatch):
    for name in [one for one in sys.modules if one.startswith(f"{catalog.__package__}.post")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "lockfast_challenge.servers.postgresql", raising=False)
    monkeypatch.setitem(sys.modules, "psycopg", None)

    with pytest.raises(CannotStart, match=r'psycopg.*pip install "lockfast\[postgresql\]"'):
        own_servers("postgresql", ttl=2.0)


DRIVERS = {
    "redis": {"redis"},
    "sentinel": {"redis"},
    "cluster": {"redis"},
    "redlock": {"redis"},
    "postgresql": {"psycopg"},
    "mysql": {"pymysql", "asyncmy"},
    "mariadb": {"pymysql", "asyncmy"},
    "zookeeper": {"kazoo"},
}
LOADED = """
import importlib, sys
store, *missing = sys.argv[1:]
sys.modules.update(dict.fromkeys(missing))
importlib.import_module("lockfast_challenge.cli.play")
catalog = importlib.import_module("lockfast_challenge.deployments.catalog")
catalog.own_servers(store, ttl=2.0)
"""


@pytest.mark.parametrize("store", STORES)
def test_a_challenge_needs_no_driver_but_its_own(store):
    """A challenge of one store must not require the drivers of other stores."""
    others = set().union(*DRIVERS.values()) - DRIVERS.get(store, set())

    done = subprocess.run(
        [sys.executable, "-c", LOADED, store, *others], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")
