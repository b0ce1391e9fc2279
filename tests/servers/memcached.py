"""The memcached server that the tests of one run share."""

from __future__ import annotations

from functools import cache

from holdfast.challenge.servers.memcached import MemcachedServer


@cache
def shared_server() -> MemcachedServer:
    """Return a server that all tests of this run share; each uses its own namespace or flushes."""
    return MemcachedServer().start()
