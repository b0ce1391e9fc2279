"""Five independent Redis servers, as in a Redlock deployment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from lockfast_challenge.servers.redis import ShiftedRedis
from lockfast_challenge.servers.server import Started

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast_challenge.servers.redis import RedisServer


class RedlockNodes(Started):
    """Independent servers, which `found` makes count towards the majority without a wait."""

    def __init__(self, number: int = 5, *, kind: type[RedisServer] = ShiftedRedis) -> None:
        self.servers: list[Any] = [kind() for _ in range(number)]

    def __getitem__(self, which: Any) -> Any:
        return self.servers[which]

    def start(self) -> Self:
        """Return once all servers serve."""
        for one in self.servers:
            one.start()
        return self

    def stop(self) -> None:
        """Stop all servers."""
        for one in self.servers:
            one.stop()

    @property
    def url(self) -> str:
        """The URL that names all servers."""
        return url_of(*self.servers)

    @property
    def client_options(self) -> dict[str, str]:
        """Further options that a Lockfast client needs: none."""
        return {}

    def found(self, namespaces: Sequence[str], *, max_ttl: float = 60.0) -> None:
        """Make all nodes count in these namespaces, as the first client of each namespace would."""
        for number, one in enumerate(self.servers):
            with one.client() as client:
                run_id = client.info("server")["run_id"]
                for namespace in namespaces:
                    known = {"format": 1, "birth": f"birth-{number}", "run": run_id, "counts": 1}
                    limits = {"max": round(max_ttl * 1_000_000), "origin": "new"}
                    client.hset(f"{namespace}:redlock:node", mapping={**known, **limits})


def url_of(*places: Any) -> str:
    """Return the URL of these servers, or of the proxies in front of them."""
    return f"redlock://{','.join(one.address for one in places)}"
