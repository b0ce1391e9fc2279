"""The memcached servers that the tests of one run share."""

from __future__ import annotations

import os
from functools import cache
from typing import ClassVar

from lockfast_challenge.servers.certificates import certificates
from lockfast_challenge.servers.memcached import MemcachedServer
from lockfast_challenge.servers.server import CannotStart, downloaded


class NewerMemcachedServer(MemcachedServer):
    """The newest memcached, which `tools/newer_servers.py` downloads."""

    packages: ClassVar[dict[str, str]] = {}

    def command(self) -> list[str]:
        """Return the command line."""
        program = downloaded("memcached")
        if program is None:
            raise CannotStart("there is no newer memcached: run tools/newer_servers.py")
        # Another account could not enter a working copy in root's home.
        as_whom = ["-u", "root"] if os.geteuid() == 0 else []
        return [str(program), *as_whom, *super().command()[1:]]


@cache
def shared_server() -> MemcachedServer:
    """Return a server that all tests of this run share; each uses its own namespace or flushes."""
    return MemcachedServer().start()


@cache
def shared_tls_server() -> MemcachedServer:
    """Return a server with TLS for all tests of this run."""
    return MemcachedServer(tls=certificates()).start()
