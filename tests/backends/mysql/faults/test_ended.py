"""The server ends our sessions, as an operator or a failover does: while one holds, waits, asks."""

from __future__ import annotations

from ended_sessions import EndedSessions


class TestEndedSessions(EndedSessions):
    """What it does to a SQL store."""
