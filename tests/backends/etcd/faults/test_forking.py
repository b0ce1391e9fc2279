"""Forking while holding, waiting and idle on etcd."""

from __future__ import annotations

import pytest
from session_forks import SessionForks


class TestForks(SessionForks):
    @pytest.mark.timeout(150)  # a hundred processes, on a machine that may be busy with others
    def test_a_hundred_forks_while_it_holds_and_waits(self, flavour, server, puppet, door):
        """No child hangs, every child has a session of its own, and the parent loses nothing."""
        parent = puppet(flavour.name, server.url, ttl=30.0)
        token = parent.ask("acquire", door.name)
        parent.ask("let_many_wait", door.name, 1)

        _fork_a_hundred_times(parent, door.name)

        parent.ask("check", door.name)
        assert door.line() == ([token], 1)

    @pytest.mark.timeout(150)
    def test_a_hundred_forks_while_it_is_idle(self, flavour, server, puppet, door):
        """The parent's session carries no claim while it forks, and still works afterwards."""
        parent = puppet(flavour.name, server.url, ttl=30.0)
        before = parent.ask("acquire", door.name)
        parent.ask("release", door.name)

        _fork_a_hundred_times(parent, door.name)

        token = parent.ask("acquire", door.name)
        assert token > before
        assert door.line() == ([token], 0)


def _fork_a_hundred_times(parent, name: str) -> None:
    """Fork children; each child acquires a lock of its own and is killed."""
    for number in range(100):
        child = parent.fork()
        assert child.ask("acquire", f"{name} {number}", timeout=20)
        child.kill()
