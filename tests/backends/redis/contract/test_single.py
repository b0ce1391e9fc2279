"""The contract on a single Redis server."""

from __future__ import annotations

from backends.redis.contract.on_redis import AsyncContractOnRedis, ContractOnRedis
from servers.redis import shared_server


class TestAsync(AsyncContractOnRedis):
    servers = shared_server


class TestSync(ContractOnRedis):
    servers = shared_server
