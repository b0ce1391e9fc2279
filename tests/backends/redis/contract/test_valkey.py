"""The contract on a newer server than the others: Valkey 9.

Only the laws that exercise parts of the scripts which the other laws do not.
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
