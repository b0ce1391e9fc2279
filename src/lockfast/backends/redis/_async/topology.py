"""Picks the transport for a topology: one server, a master watched by Sentinels, a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockfast.backends.redis._async.cluster import AsyncClusterTransport
from lockfast.backends.redis._async.sentinel import AsyncSentinelTransport
from lockfast.backends.redis.connection_aio import RedisTransport

if TYPE_CHECKING:
    from lockfast.backends.redis.address import Address
    from lockfast.runtime.clock import Clock

AnyTransport = RedisTransport | AsyncClusterTransport


def transport_to(address: Address, *, clock: Clock) -> AnyTransport:
    """Return the transport to the servers at an address."""
    if address.topology == "sentinel":
        return AsyncSentinelTransport(address, clock=clock)
    if address.topology == "cluster":
        return AsyncClusterTransport(address, clock=clock)
    return RedisTransport(address.server, clock=clock)
