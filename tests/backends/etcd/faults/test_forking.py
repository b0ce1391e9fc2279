"""Forking while holding and waiting on etcd."""

from __future__ import annotations

import pytest
from session_forks import SessionForks


class TestForks(SessionForks):
    @pytest.mark.timeout(150)  # a hundred processes, on a machine that may be busy with others
    def test_a_hundred_forks_while_it_holds_and_waits(self, flavour, server, puppet, door):
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
