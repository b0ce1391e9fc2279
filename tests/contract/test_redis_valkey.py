"""The contract on a newer server than the others: Valkey 9.

The laws in which the scripts have a part that they do not have in the others.
"""

from __future__ import annotations

from redis_contract import AsyncContractOnRedis, ContractOnRedis
from redis_servers import shared_valkey

LAWS = (1, 2, 3, 4, 5, 6, 12, 14)


class TestAsync(AsyncContractOnRedis):
    servers = shared_valkey
    laws = LAWS


class TestSync(ContractOnRedis):
    servers = shared_valkey
    laws = LAWS
