"""A store that cannot be started is refused in a sentence."""

from __future__ import annotations

import sys

import pytest

from lockfast.challenge.deployments import choosing
from lockfast.challenge.deployments.choosing import own_servers
from lockfast.challenge.servers.starting import CannotStart


def test_a_store_that_is_not_known_is_refused_with_those_that_are():
    with pytest.raises(CannotStart, match=r"no servers of 'consul' to start: redis, sentinel,"):
        own_servers("consul", ttl=2.0)


def test_a_driver_that_is_not_installed_is_named_with_its_extra(monkeypatch):
    for name in [one for one in sys.modules if one.startswith(f"{choosing.__package__}.post")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "lockfast.challenge.servers.postgresql", raising=False)
    monkeypatch.setitem(sys.modules, "psycopg", None)

    with pytest.raises(CannotStart, match=r'psycopg.*pip install "lockfast\[postgresql\]"'):
        own_servers("postgresql", ttl=2.0)
