"""The contract on a server that speaks TLS alone, and knows its clients by certificate.

The laws in which the wire has a part; the others cannot tell the difference.
"""

from __future__ import annotations

from backends.redis.contract.on_redis import AsyncContractOnRedis, ContractOnRedis
from servers.redis import shared_tls_server

LAWS = (1, 2, 5, 6, 8, 14)
TTL = 0.6  # a handshake takes its time, and tests open many connections


class TestAsync(AsyncContractOnRedis):
    servers = shared_tls_server
    laws = LAWS
    ttl = TTL


class TestSync(ContractOnRedis):
    servers = shared_tls_server
    laws = LAWS
    ttl = TTL
