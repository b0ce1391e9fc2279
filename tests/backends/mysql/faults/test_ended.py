"""The server ends our sessions, as an operator or a failover does: while one holds, waits, asks."""

from __future__ import annotations

from backends.mysql import each_server
from ended_sessions import EndedSessions

module_server = each_server.module_server


class TestEndedSessions(EndedSessions):
    """What it does to a SQL store."""
