"""Forking a client with a session: the child holds nothing, the parent loses nothing."""

from __future__ import annotations

import pytest

from lockfast import LeaseLost
from lockfast_challenge.processes import eventually


class SessionForks:
    """What forks do on a store with sessions."""

    @pytest.fixture
    def parent(self, flavour, server, puppet):
        return puppet(flavour.name, server.url)

    def test_a_forked_child_holds_nothing(self, parent, door):
        token = parent.ask("acquire", door.name)

        child = parent.fork()
        with pytest.raises(LeaseLost) as told:
            child.ask("check", door.name)
        with pytest.raises(LeaseLost):
            child.ask("release", door.name)

        assert told.value.reason == "forked"
        parent.ask("check", door.name)
        assert door.line() == ([token], 0)

    def test_the_parent_keeps_its_session_whatever_its_children_do(
        self, flavour, server, puppet, door
    ):
        """The children use their own sessions, close and die, but the parent's session goes on."""
        parent = puppet(flavour.name, server.url, ttl=6)
        token = parent.ask("acquire", door.name)
        children = [parent.fork(), parent.fork()]
        for number, child in enumerate(children):
            child.ask("acquire", f"{door.name} window {number}", timeout=20)

        children[0].ask("close")
        children[1].kill()
        before = parent.ask("renewals")
        eventually(lambda: parent.ask("renewals") >= before + 3, what="it is renewed")

        parent.ask("check", door.name)
        assert door.line() == ([token], 0)
        parent.ask("release", door.name)
        assert door.line() == ([], 0)

    def test_a_child_cannot_enter_what_its_parent_holds(self, parent, door):
        """The child waits like any other client, and gets the lock after the parent's release."""
        token = parent.ask("acquire", door.name)
        child = parent.fork()
        child.ask("let_many_wait", door.name, 1)
        door.until([token], 1)

        parent.ask("release", door.name)

        eventually(lambda: door.line()[1] == 0, what="it is served")
        [[childs], _] = door.line()
        assert childs > token
