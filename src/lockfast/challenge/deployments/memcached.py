"""One memcached server, which forgets everything when it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from lockfast.challenge.deployments.one_server import OneServer
from lockfast.challenge.servers.memcached import MemcachedServer

if TYPE_CHECKING:
    from collections.abc import Sequence

FORGETS = (
    "A restart, a crash, flush_all or an eviction under memory pressure frees a lock that is held"
)


class Memcached(OneServer[MemcachedServer]):
    """`memcached://`."""

    store = "memcached"
    documented: ClassVar[dict[str, str]] = {
        "server-paused": "what is granted then can end as much too early as the pause was long",
        "server-killed": FORGETS,
        "server-emptied": FORGETS,
    }
    clock_lacks = "memcached goes by the monotonic clock, which nobody can set"

    def __init__(self, *, ttl: float) -> None:
        super().__init__(ttl=ttl)
        self.server: MemcachedServer = MemcachedServer()

    def url_at(self, addresses: Sequence[str]) -> str:
        """Return its URL."""
        return f"memcached://{addresses[0]}"
