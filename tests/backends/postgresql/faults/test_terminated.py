"""The server ends our sessions, as an operator or a failover does, whatever they are doing."""

from __future__ import annotations

from backends.postgresql.faults.conftest import LISTENING, is_listening
from ended_sessions import EndedSessions

from lockfast_challenge.processes import eventually

SOON = 2.0
"""A timeout in seconds, shorter than the time to the next poll, which could hide a missed
wakeup."""


class TestEndedSessions(EndedSessions):
    """The tests for every SQL store."""

    def until_listening(self, server) -> None:
        eventually(lambda: is_listening(server))


def test_a_listening_connection_that_is_lost_is_opened_again(server, door):
    """A release while the listening connection is down is not missed: the waiter asks again."""
    lease = door.elsewhere().acquire()
    waiter = door.wait_behind()
    door.until([lease.token], 1)
    eventually(lambda: is_listening(server))

    assert server.terminate(LISTENING) == 1
    lease.release()

    assert waiter.result(SOON).token > lease.token
