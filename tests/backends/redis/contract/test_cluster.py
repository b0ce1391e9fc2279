"""The contract on a cluster of three masters with a replica each."""

from __future__ import annotations

from backends.redis.contract.on_redis import AsyncContractOnRedis, ContractOnRedis
from servers.redis_cluster import shared_cluster


class TestAsync(AsyncContractOnRedis):
    servers = shared_cluster


class TestSync(ContractOnRedis):
    servers = shared_cluster
