"""One Redis server that keeps what it is told; and which kind it is where its clock can be set."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, ClassVar

from lockfast.challenge.deployments.one_server import OneServer
from lockfast.challenge.servers.redis import RedisServer, ShiftedRedis
from lockfast.challenge.servers.shifted_clock import clock_lacks

if TYPE_CHECKING:
    from collections.abc import Sequence

FORGETS = (
    "A server that restarts without its data, is flushed, evicts keys, or fails over to a "
    "replica that lacks the last writes forgets locks that are held"
)
JUMPS = "A server clock that jumps ahead ends leases early, since to the server their time is over"

KEEPS = ("--appendonly", "yes", "--appendfsync", "always")


class Redis(OneServer[RedisServer]):
    """`redis://`."""

    store = "redis"
    documented: ClassVar[dict[str, str]] = {
        "server-emptied": FORGETS,
        "clock-jump": JUMPS,
    }

    def __init__(self, *, ttl: float) -> None:
        super().__init__(ttl=ttl)
        self.clock_lacks: str = clock_lacks()
        kind = RedisServer if self.clock_lacks else ShiftedRedis
        self.server: RedisServer | ShiftedRedis = kind(*KEEPS)

    def url_at(self, addresses: Sequence[str]) -> str:
        """Return its URL."""
        return f"redis://{addresses[0]}"

    def end_without_data(self) -> None:
        """Kill it, and delete its log."""
        super().end_without_data()
        shutil.rmtree(self.server.directory / "appendonlydir", ignore_errors=True)
