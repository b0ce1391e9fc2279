"""The MySQL server that the tests of one run share."""

from __future__ import annotations

from functools import cache

from lockfast_challenge.servers.mysql import MysqlServer


@cache
def shared_server() -> MysqlServer:
    """Return a server that all tests of this run share; each has its own tables."""
    return MysqlServer().start()
