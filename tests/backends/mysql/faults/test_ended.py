"""The server ends our sessions, as an operator or a failover does, whatever they are doing."""

from __future__ import annotations

from backends.mysql import each_server
from ended_sessions import EndedSessions

module_server = each_server.module_server


class TestEndedSessions(EndedSessions):
    """The tests for every SQL store."""
