"""The wire for each place where Redis may be: one server, a watched master, a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockfast.backends.redis._async.cluster import AsyncCluster
from lockfast.backends.redis._async.sentinel import AsyncSentinelWire
from lockfast.backends.redis.addresses import (
    address_of_client,
    address_of_url,
    check_place,
    checked_options,
    database_in,
    understood,
)
from lockfast.backends.redis.connection.aio import Wire, kind_of_connection

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lockfast.backends.redis.addresses import Address
    from lockfast.runtime.clock import Clock

AnyWire = Wire | AsyncCluster


def wire_to_url(url: str, *, where: str, options: Mapping[str, Any], clock: Clock) -> AnyWire:
    """Return the way to what the URL names."""
    if url.partition("://")[0] in ("redis", "rediss"):
        check_place(url, where=where)
        given = database_in(url, where=where) | checked_options(options, topology="single")
        return Wire.from_url(url, options=given, clock=clock, where=where)
    return _wire_to(address_of_url(url, where=where, options=options), clock)


def wire_of_client(client: object, *, clock: Clock) -> AnyWire:
    """Return a way of our own to where a client connects."""
    return _wire_to(address_of_client(client), clock)


def _wire_to(address: Address, clock: Clock) -> AnyWire:
    kind = kind_of_connection(tls=address.tls, is_socket="path" in address.options)
    options = understood(address.options, by=kind)
    if address.topology == "sentinel":
        return AsyncSentinelWire(address, kind=kind, options=options, clock=clock)
    if address.topology == "cluster":
        return AsyncCluster(address, kind=kind, options=options, clock=clock)
    return Wire(kind=kind, options=options, clock=clock, where=address.where)
