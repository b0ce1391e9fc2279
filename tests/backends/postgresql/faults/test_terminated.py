"""The server ends our sessions, as an operator or a failover does: while one holds, waits, asks."""

from __future__ import annotations

from backends.postgresql.faults.conftest import LISTENING, is_listening
from ended_sessions import EndedSessions

from lockfast.challenge.eventually import eventually

SOON = 2.0
"""Sooner than the next look, which would make up for a ring that was missed."""


class TestEndedSessions(EndedSessions):
    """What it does to a SQL store."""

    def until_it_hears(self, server) -> None:
        eventually(lambda: is_listening(server))


def test_a_listening_connection_that_is_lost_is_opened_again(server, door):
    """Only that one, and somebody releases before it is back: it asks when it is."""
    lease = door.elsewhere().acquire()
    waiter = door.wait_behind()
    door.until([lease.token], 1)
    eventually(lambda: is_listening(server))

    assert server.terminate(LISTENING) == 1
    lease.release()

    assert waiter.result(SOON).token > lease.token
