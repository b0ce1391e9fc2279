"""The URLs of Redlock, and the clients of which several are one store together."""

from __future__ import annotations

from lockfast.core.declaring import Declaration, ForeignClients, is_of_asyncio

DECLARATION = Declaration(
    backend="RedlockBackend",
    schemes={
        "redlock": "redlock://host1,host2,host3",
        "redlocks": "redlocks://host1,host2,host3",
    },
    extra="redis",
    together=ForeignClients(
        packages=frozenset({"redis", "valkey"}),
        listed_as="clients of redis-py and valkey-py, one for each node",
        options=frozenset({"durable", "max_ttl", "min_validity", "node_timeout"}),
        is_asyncio=is_of_asyncio,
        refused={"fakeredis": "is no store that others see; for tests use Locks('memory://name')"},
    ),
)
