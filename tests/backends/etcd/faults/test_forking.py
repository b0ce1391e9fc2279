"""Forking while holding: the child holds nothing, the parent loses nothing."""

from __future__ import annotations

import pytest
from eventually import eventually

from holdfast import LeaseLost


@pytest.fixture
def parent(flavour, server, puppet):
    return puppet(flavour.name, server.url)


def test_a_forked_child_holds_nothing(parent, door):
    token = parent.ask("acquire", door.name)

    child = parent.fork()
    with pytest.raises(LeaseLost) as told:
        child.ask("check", door.name)
    with pytest.raises(LeaseLost):
        child.ask("release", door.name)

    assert told.value.reason == "forked"
    parent.ask("check", door.name)
    assert door.line() == ([token], 0)


def test_the_parent_keeps_its_session_whatever_its_children_do(flavour, server, puppet, door):
    """They use sessions of their own, close, die: the parent's goes on."""
    parent = puppet(flavour.name, server.url, ttl=2.0)
    token = parent.ask("acquire", door.name)
    children = [parent.fork(), parent.fork()]
    for number, child in enumerate(children):
        child.ask("acquire", f"{door.name} window {number}", timeout=5)

    children[0].ask("close")
    children[1].kill()
    before = parent.ask("renewals")
    eventually(lambda: parent.ask("renewals") >= before + 3, what="it is renewed")

    parent.ask("check", door.name)
    assert door.line() == ([token], 0)
    parent.ask("release", door.name)
    assert door.line() == ([], 0)


def test_a_child_cannot_enter_what_its_parent_holds(parent, door):
    """It waits like any other, and is served when the parent has released."""
    token = parent.ask("acquire", door.name)
    child = parent.fork()
    child.ask("let_many_wait", door.name, 1)
    door.until([token], 1)

    parent.ask("release", door.name)

    eventually(lambda: door.line()[1] == 0, what="it is served")
    [[childs], _] = door.line()
    assert childs > token


@pytest.mark.timeout(150)  # a hundred processes, on a machine that may be busy with others
def test_a_hundred_forks_while_it_holds_and_waits(flavour, server, puppet, door):
    """No child hangs, each has a session of its own, and the parent loses nothing."""
    parent = puppet(flavour.name, server.url, ttl=30.0)
    token = parent.ask("acquire", door.name)
    parent.ask("let_many_wait", door.name, 1)

    for number in range(100):
        child = parent.fork()
        assert child.ask("acquire", f"{door.name} {number}", timeout=20)
        child.kill()

    parent.ask("check", door.name)
    assert door.line() == ([token], 1)
