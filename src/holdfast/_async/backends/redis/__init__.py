"""`redis://`: locks in a Redis or Valkey server."""

from __future__ import annotations

from holdfast._async.backends.redis.backend import AsyncRedisBackend

__all__ = ["AsyncRedisBackend"]
