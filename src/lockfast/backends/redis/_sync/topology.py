# Generated from src/lockfast/backends/redis/_async/topology.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""Picks the transport for a topology: one server, a master watched by Sentinels, a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockfast.backends.redis._sync.cluster import ClusterTransport
from lockfast.backends.redis._sync.sentinel import SentinelTransport
from lockfast.backends.redis.connection_threads import RedisTransport

if TYPE_CHECKING:
    from lockfast.backends.redis.address import Address
    from lockfast.runtime.clock import Clock

AnyTransport = RedisTransport | ClusterTransport


def transport_to(address: Address, *, clock: Clock) -> AnyTransport:
    """Return the transport to the servers at an address."""
    if address.topology == "sentinel":
        return SentinelTransport(address, clock=clock)
    if address.topology == "cluster":
        return ClusterTransport(address, clock=clock)
    return RedisTransport(address.server, clock=clock)
