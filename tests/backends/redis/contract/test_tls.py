"""The contract on a TLS-only server that identifies its clients by certificate.

Only the laws that involve the connection run here: TLS makes no difference to the other laws.
"""

from __future__ import annotations

from backends.redis.contract.on_redis import AsyncContractOnRedis, ContractOnRedis
from servers.redis import shared_tls_server

LAWS = (1, 2, 5, 6, 8, 14)
TTL = 0.6  # a handshake takes time, and the tests open many connections


class TestAsync(AsyncContractOnRedis):
    servers = shared_tls_server
    laws = LAWS
    ttl = TTL


class TestSync(ContractOnRedis):
    servers = shared_tls_server
    laws = LAWS
    ttl = TTL
