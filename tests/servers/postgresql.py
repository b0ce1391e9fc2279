"""The PostgreSQL server that the tests of one run share."""

from __future__ import annotations

from functools import cache

from lockfast.challenge.servers.postgresql import PostgresqlServer


@cache
def shared_server() -> PostgresqlServer:
    """Return a server that all tests of this run share; each has tables of its own."""
    return PostgresqlServer().start()
