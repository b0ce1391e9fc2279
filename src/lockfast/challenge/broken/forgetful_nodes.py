"""Three nodes of a Redlock without persistence, of which two restart, and know nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockfast.challenge.deployments.on_servers import OnServers, one_of, revive
from lockfast.challenge.deployments.own import OwnServers
from lockfast.challenge.servers.redis import RedisServer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.challenge.deployments.ways import Place
    from lockfast.challenge.fault import Draw, Fault

DOWN = (0.0, 0.1)
"""In ttls."""


class ForgetfulNodes(OwnServers):
    """Servers that know nothing of each other, and keep nothing on disk."""

    store = "redlock"

    def __init__(self, *, ttl: float) -> None:
        super().__init__(ttl=ttl)
        self.nodes: list[RedisServer] = [RedisServer() for _ in range(3)]

    def start_servers(self) -> None:
        """Return once all of them serve."""
        revive(self.nodes)

    def stop_servers(self) -> None:
        """End all of them."""
        for one in self.nodes:
            one.stop()

    def places(self) -> list[Place]:
        """Return where they are."""
        return [("127.0.0.1", one.port) for one in self.nodes]

    def url_at(self, addresses: Sequence[str]) -> str:
        """Return the URL of all of them."""
        return f"redlock://{','.join(addresses)}"

    def faults(self) -> Sequence[Fault]:
        """See the protocol."""
        return [OnServers("nodes-restart-empty", DOWN, self._kill, self._revive)]

    def _kill(self, draw: Draw) -> str:
        spared = one_of(self.nodes, draw)
        for one in self.nodes:
            if one is not spared:
                one.kill()
        return f"all but node {self.nodes.index(spared)}"

    def _revive(self) -> None:
        revive(self.nodes)
