"""Many claims of one client for one name at once."""

from __future__ import annotations

from backends.sql.crowd_laws import CrowdLaws


class TestCrowd(CrowdLaws):
    """The tests for every SQL store, on PostgreSQL."""
