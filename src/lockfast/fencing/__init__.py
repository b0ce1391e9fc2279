"""Guards: how a resource prevents a late holder from doing harm.

A lock cannot stop a process that slept past the end of its lease. The resource can, if it remembers
the largest token that it has seen. Each guard takes an exclusive lease and first checks the lease
locally. The resource then compares the token and writes, in one step.
"""

import importlib
from typing import TYPE_CHECKING

from lockfast.fencing._sync.redis import RedisGuard
from lockfast.fencing._sync.sql import fenced_update, fenced_upsert, seal
from lockfast.fencing.headers import fencing_headers
from lockfast.fencing.presenting import passed_on

if TYPE_CHECKING:
    from lockfast.fencing._async.redis import AsyncRedisGuard
    from lockfast.fencing._async.sql import fenced_update as async_fenced_update
    from lockfast.fencing._async.sql import fenced_upsert as async_fenced_upsert
    from lockfast.fencing._async.sql import seal as async_seal
    from lockfast.fencing.asgi import FencingMiddleware, Marks, MemoryMarks, RedisMarks, SqlMarks
    from lockfast.fencing.file import FencedFile

# These names are imported on first use. A program should not pay for guards that it does not use,
# and not every system has the file locks that `FencedFile` needs.
_LATER = {
    "AsyncRedisGuard": ("_async.redis", "AsyncRedisGuard"),
    "FencedFile": ("file", "FencedFile"),
    "FencingMiddleware": ("asgi", "FencingMiddleware"),
    "Marks": ("asgi", "Marks"),
    "MemoryMarks": ("asgi", "MemoryMarks"),
    "RedisMarks": ("asgi", "RedisMarks"),
    "SqlMarks": ("asgi", "SqlMarks"),
    "async_fenced_update": ("_async.sql", "fenced_update"),
    "async_fenced_upsert": ("_async.sql", "fenced_upsert"),
    "async_seal": ("_async.sql", "seal"),
}


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module 'lockfast.fencing' has no attribute {name!r}")
    module, inside = _LATER[name]
    found = globals()[name] = getattr(importlib.import_module(f"{__name__}.{module}"), inside)
    return found


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "AsyncRedisGuard",
    "FencedFile",
    "FencingMiddleware",
    "Marks",
    "MemoryMarks",
    "RedisGuard",
    "RedisMarks",
    "SqlMarks",
    "async_fenced_update",
    "async_fenced_upsert",
    "async_seal",
    "fenced_update",
    "fenced_upsert",
    "fencing_headers",
    "passed_on",
    "seal",
]
