"""The MariaDB server that the tests of one run share."""

from __future__ import annotations

from functools import cache

from holdfast.challenge.servers.mariadb import MariadbServer


@cache
def shared_server() -> MariadbServer:
    """Return a server that all tests of this run share; each has tables of its own."""
    return MariadbServer().start()
