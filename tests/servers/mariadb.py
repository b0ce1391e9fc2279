"""The MariaDB servers that the tests of one run share."""

from __future__ import annotations

from functools import cache

from lockfast.challenge.servers.mariadb import MariadbServer, NewerMariadbServer


@cache
def shared_server() -> MariadbServer:
    """Return a server that all tests of this run share; each has tables of its own."""
    return MariadbServer().start()


@cache
def newer_server() -> NewerMariadbServer:
    """Return one of a newer release, which all tests of this run share as well."""
    return NewerMariadbServer().start()
