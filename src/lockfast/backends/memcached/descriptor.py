"""The memcached URL; no driver is needed, since we implement the protocol."""

from __future__ import annotations

from lockfast.core.descriptor import StoreDescriptor

DESCRIPTOR = StoreDescriptor(
    backend="MemcachedBackend", schemes={"memcached": "memcached://host:11211"}
)
