"""Many claims of one client for one name at once."""

from __future__ import annotations

from backends.mysql import each_server
from backends.sql.crowd_laws import CrowdLaws

server = each_server.server


class TestCrowd(CrowdLaws):
    """The tests for every SQL store, on MariaDB and MySQL."""
