"""The contract on a master that Sentinels watch."""

from __future__ import annotations

from backends.redis.contract.on_redis import AsyncContractOnRedis, ContractOnRedis
from servers.redis_sentinels import shared_sentinels


class TestAsync(AsyncContractOnRedis):
    servers = shared_sentinels


class TestSync(ContractOnRedis):
    servers = shared_sentinels
