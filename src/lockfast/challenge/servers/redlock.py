"""Five independent Redis servers, as a deployment of Redlock has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from lockfast.challenge.servers.redis import ShiftedRedis
from lockfast.challenge.servers.starting import Started

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.challenge.servers.redis import RedisServer


class RedlockNodes(Started):
    """Servers that know nothing of each other; `found` lets them count without waiting."""

    def __init__(self, number: int = 5, *, kind: type[RedisServer] = ShiftedRedis) -> None:
        self.servers: list[Any] = [kind() for _ in range(number)]

    def __getitem__(self, which: Any) -> Any:
        return self.servers[which]

    def start(self) -> Self:
        """Return once all of them serve."""
        for one in self.servers:
            one.start()
        return self

    def stop(self) -> None:
        """End all of them."""
        for one in self.servers:
            one.stop()

    @property
    def url(self) -> str:
        """The URL of all of them."""
        return url_of(*self.servers)

    @property
    def client_options(self) -> dict[str, str]:
        """What a client of Lockfast has to know besides: nothing."""
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
