"""The PostgreSQL server that the tests of one run share."""

from __future__ import annotations

from functools import cache

from lockfast_challenge.servers.postgresql import PostgresqlServer


@cache
def shared_server() -> PostgresqlServer:
    """Return a server that all tests of this run share; each has its own tables."""
    return PostgresqlServer().start()
