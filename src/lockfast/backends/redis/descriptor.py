"""URL schemes for Redis, Sentinel and cluster, and the clients accepted in place of a URL."""

from __future__ import annotations

from lockfast.core.descriptor import (
    ForeignClients,
    StoreDescriptor,
    is_asyncio_class,
    server_with_databases,
)

DESCRIPTOR = StoreDescriptor(
    backend="RedisBackend",
    schemes={
        "redis": "redis://host:6379/0",
        "rediss": "rediss://host:6379/0",
        "unix": "unix:///path/to/redis.sock",
        "redis+sentinel": "redis+sentinel://host1,host2,host3/mymaster",
        "rediss+sentinel": "rediss+sentinel://host1,host2,host3/mymaster",
        "redis+cluster": "redis+cluster://host1,host2",
        "rediss+cluster": "rediss+cluster://host1,host2",
    },
    arguments=server_with_databases,
    scheme_aliases={"valkey": "redis", "valkeys": "rediss"},
    clients=(
        ForeignClients(
            packages=frozenset({"redis", "valkey"}),
            listed_as="clients of redis-py and valkey-py "
            "(Redis, RedisCluster, and what Sentinel.master_for returns)",
            options=frozenset({"durability"}),
            is_asyncio=is_asyncio_class,
            refused={
                "fakeredis": "is no store that others see; for tests use Locks('memory://name')"
            },
        ),
    ),
)
