"""The server itself is shut down, killed or frozen, and comes back."""

from __future__ import annotations

from server_faults import ServerFaults


class TestServerFaults(ServerFaults):
    """The tests for every SQL store."""
