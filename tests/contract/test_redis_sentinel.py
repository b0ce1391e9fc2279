"""The contract on a master that Sentinels watch."""

from __future__ import annotations

from redis_contract import AsyncContractOnRedis, ContractOnRedis
from redis_topologies import shared_sentinels


class TestAsync(AsyncContractOnRedis):
    servers = shared_sentinels


class TestSync(ContractOnRedis):
    servers = shared_sentinels
