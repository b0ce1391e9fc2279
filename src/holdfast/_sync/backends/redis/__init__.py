# Generated from src/holdfast/_async/backends/redis/__init__.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""`redis://`: locks in a Redis or Valkey server."""

from __future__ import annotations

from holdfast._sync.backends.redis.backend import RedisBackend

__all__ = ["RedisBackend"]
