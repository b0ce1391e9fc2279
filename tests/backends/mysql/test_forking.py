"""Forking while holding: the child holds nothing, the parent loses nothing."""

from __future__ import annotations

import pytest
from eventually import eventually
from fault_scene import seen_of

from holdfast import LeaseLost


@pytest.fixture
def line(flavour, server):
    """Return the holders' tokens of a name, and how many wait."""
    watcher = flavour.locks(server.url())
    return lambda name: seen_of(watcher, name)


@pytest.fixture
def parent(flavour, server, puppet):
    return puppet(flavour.name, server.url(), ttl=1.5)


def test_a_forked_child_holds_nothing(parent, line, name):
    token = parent.ask("acquire", name)

    child = parent.fork()
    with pytest.raises(LeaseLost) as told:
        child.ask("check", name)

    assert told.value.reason == "forked"
    parent.ask("check", name)
    assert line(name) == ([token], 0)


def test_the_parent_goes_on_over_the_connection_that_its_child_inherited(parent, line, name):
    """The child uses its own, closes, dies: no reply of the parent's is taken, none is cut."""
    token = parent.ask("acquire", name)
    children = [parent.fork(), parent.fork()]
    for number, child in enumerate(children):
        child.ask("acquire", f"{name}/{number}", timeout=5)

    children[0].ask("close")
    children[1].kill()
    before = parent.ask("renewals")
    eventually(lambda: parent.ask("renewals") >= before + 2)

    parent.ask("check", name)
    assert line(name) == ([token], 0)
    parent.ask("release", name)
    assert line(name) == ([], 0)
