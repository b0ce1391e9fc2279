"""Forking while holding: the child holds nothing, the parent loses nothing."""

from __future__ import annotations

import pytest

from lockfast import LeaseLost
from lockfast_challenge.servers.redlock import url_of


@pytest.fixture
def parent(flavour, nodes, puppet):
    nodes.found(["lockfast"])
    return puppet(flavour.name, f"{url_of(*nodes)}?node_timeout=20", ttl=3.0, request_timeout=20)


def test_a_forked_child_holds_nothing_and_its_parent_goes_on(parent, eventually, name):
    """A child opens its own connections, so it takes no reply from its parent's connections."""
    parent.ask("acquire", name)
    child = parent.fork()

    with pytest.raises(LeaseLost) as told:
        child.ask("check", name)
    child.ask("acquire", f"{name} of the child", timeout=15)
    child.ask("close")
    before = parent.ask("renewals")
    eventually(lambda: parent.ask("renewals") >= before + 2)

    assert told.value.reason == "forked"
    parent.ask("check", name)
    parent.ask("release", name)
