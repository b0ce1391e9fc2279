"""The contract on a single Redis server."""

from __future__ import annotations

from redis_contract import AsyncContractOnRedis, ContractOnRedis
from redis_servers import shared_server


class TestAsync(AsyncContractOnRedis):
    servers = shared_server


class TestSync(ContractOnRedis):
    servers = shared_server
