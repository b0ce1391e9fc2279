"""URL schemes for Redlock, and the clients accepted in place of a URL, one for each node."""

from __future__ import annotations

from lockfast.core.descriptor import (
    ForeignClients,
    StoreDescriptor,
    is_asyncio_class,
    server_with_databases,
)

DESCRIPTOR = StoreDescriptor(
    backend="RedlockBackend",
    schemes={
        "redlock": "redlock://host1,host2,host3",
        "redlocks": "redlocks://host1,host2,host3",
    },
    arguments=server_with_databases,
    together=ForeignClients(
        packages=frozenset({"redis", "valkey"}),
        listed_as="clients of redis-py and valkey-py, one for each node",
        options=frozenset({"durable", "max_ttl", "min_validity", "node_timeout"}),
        is_asyncio=is_asyncio_class,
        refused={"fakeredis": "is no store that others see; for tests use Locks('memory://name')"},
    ),
)
