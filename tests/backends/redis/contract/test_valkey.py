"""The contract on a newer server than the others: Valkey 9.

The laws in which the scripts have a part that they do not have in the others.
"""

from __future__ import annotations

from backends.redis.contract.on_redis import AsyncContractOnRedis, ContractOnRedis
from servers.redis import shared_valkey

LAWS = (1, 2, 3, 4, 5, 6, 12, 14)


class TestAsync(AsyncContractOnRedis):
    servers = shared_valkey
    laws = LAWS


class TestSync(ContractOnRedis):
    servers = shared_valkey
    laws = LAWS
