"""The server itself: shut down, killed, frozen; and back."""

from __future__ import annotations

from server_faults import ServerFaults


class TestServerFaults(ServerFaults):
    """What they do to a SQL store."""
