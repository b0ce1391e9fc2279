"""The URL of memcached, which needs no driver: its protocol is spoken here."""

from __future__ import annotations

from lockfast.core.declaring import Declaration

DECLARATION = Declaration(
    backend="MemcachedBackend", schemes={"memcached": "memcached://host:11211"}
)
