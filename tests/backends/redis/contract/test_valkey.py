"""The contract on Valkey 9, which is newer than the other servers under test.

Only some laws run here: the omitted laws exercise no further parts of the scripts.
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
