"""The MariaDB servers that the tests of one run share."""

from __future__ import annotations

from functools import cache

from lockfast_challenge.servers.mysql import MariadbServer, NewerMariadbServer


@cache
def shared_server() -> MariadbServer:
    """Return a server that all tests of this run share; each has its own tables."""
    return MariadbServer().start()


@cache
def newer_server() -> NewerMariadbServer:
    """Return a server of a newer release, which all tests of this run share as well."""
    return NewerMariadbServer().start()
