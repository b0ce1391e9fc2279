"""One Redis server that syncs every write to disk, with a settable clock where possible."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from lockfast_challenge.deployments.single_server import SingleServerDeployment
from lockfast_challenge.outcome import Exemption
from lockfast_challenge.servers.redis import RedisServer, ShiftedRedis
from lockfast_challenge.servers.shifted_clock import clock_lacks

if TYPE_CHECKING:
    from collections.abc import Sequence

REDIS_FORGETS = (
    "A server that restarts without its data, is flushed, evicts keys, or fails over to a "
    "replica that lacks the last writes forgets locks that are held"
)
TOKENS_GO_BACK = "If it loses data and its clock is set back by more than the time since, they can"
CLOCK_JUMPS = (
    "A server clock that jumps ahead ends leases early, since to the server their time is over"
)

DURABLE_OPTIONS = ("--appendonly", "yes", "--appendfsync", "always")


class Redis(SingleServerDeployment[RedisServer]):
    """`redis://`, on one server."""

    store = "redis"
    exemptions = (
        Exemption("server-emptied", "overlap", REDIS_FORGETS),
        Exemption("server-emptied", "token", TOKENS_GO_BACK, clock="back"),
        Exemption("clock-jump", "overlap", CLOCK_JUMPS, clock="ahead"),
    )

    def __init__(self, *, ttl: float) -> None:
        super().__init__(ttl=ttl)
        self.clock_lacks: str = clock_lacks()
        kind = RedisServer if self.clock_lacks else ShiftedRedis
        self.server: RedisServer | ShiftedRedis = kind(*DURABLE_OPTIONS)

    def url_at(self, addresses: Sequence[str]) -> str:
        """Return the URL of the server."""
        return f"redis://{addresses[0]}"

    def end_without_data(self) -> None:
        """Kill the server and delete its append-only log."""
        super().end_without_data()
        shutil.rmtree(self.server.directory / "appendonlydir", ignore_errors=True)
