"""Five independent Redis servers, as a deployment of Redlock has them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Self

from servers.redis import until
from servers.redis_shifted_clock import ShiftedServer
from servers.starting import Started

HOUR = 3600.0


class LongRunningServer(ShiftedServer):
    """As if it had been started an hour ago; each restart is one of now."""

    def start(self) -> Self:
        is_first = self._process is None
        self.shift_clock(-HOUR if is_first else 0.0)
        super().start()
        self.shift_clock(0.0)
        if is_first:
            # It looks at its clock now and then.
            until(lambda: self._uptime() >= HOUR, what="its clock is ours")
        return self

    def _uptime(self) -> int:
        with self.client() as client:
            return client.info("server")["uptime_in_seconds"]


class RedlockNodes(Started):
    """Servers that know nothing of each other, long enough there to be counted on at once."""

    def __init__(self, number: int = 5, *options: str, kind: type = LongRunningServer) -> None:
        self.servers: list[Any] = [kind(*options) for _ in range(number)]

    def __getitem__(self, which: Any) -> Any:
        return self.servers[which]

    def start(self) -> Self:
        for one in self.servers:
            one.start()
        return self

    def stop(self) -> None:
        for one in self.servers:
            one.stop()

    @property
    def url(self) -> str:
        return url_of(*self.servers)

    @property
    def client_options(self) -> dict[str, str]:
        return {}

    def found(self, namespaces: Sequence[str], *, max_ttl: float = 60.0) -> None:
        """Let all nodes count in these namespaces, as the first client of each leaves it."""
        for number, one in enumerate(self.servers):
            with one.client() as client:
                run_id = client.info("server")["run_id"]
                for namespace in namespaces:
                    known = {"format": 1, "birth": f"birth-{number}", "run": run_id, "counts": 1}
                    limits = {"max": round(max_ttl * 1_000_000), "origin": "new"}
                    client.hset(f"{namespace}:redlock:node", mapping={**known, **limits})


def url_of(*places: Any) -> str:
    """Return the URL of these servers, or of the proxies before them."""
    return f"redlock://{','.join(one.address for one in places)}"


@cache
def shared_nodes() -> RedlockNodes:
    """Return nodes that all tests of this run share; each uses its own namespace."""
    return RedlockNodes().start()
