"""Count the library's files that take part in one uncontended acquire and release.

    tools/cycle_files.py    for Redis (sync) and PostgreSQL (asyncio), on servers of its own

The fewer files there are, the fewer a reader has to open to follow a lock. The cycle is warmed up
first, so that connecting, loading scripts and creating tables do not count.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Self

import lockfast
from lockfast_challenge.servers.postgresql import PostgresqlServer
from lockfast_challenge.servers.redis import RedisServer

if TYPE_CHECKING:
    from types import FrameType

PACKAGE = Path(lockfast.__file__).parent
WARM_UP_CYCLES = 20


class CalledFiles:
    """The files below the package in which a function was called."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """Record a call; an instance is passed to `sys.setprofile`."""
        if event == "call":
            path = Path(frame.f_code.co_filename)
            if path.is_relative_to(PACKAGE):
                self.names.add(path.relative_to(PACKAGE).as_posix())

    def __enter__(self) -> Self:
        threading.setprofile(self)
        sys.setprofile(self)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)


def redis_sync(url: str) -> set[str]:
    """Return the files of a cycle on Redis, in threads."""
    with lockfast.Locks(url) as locks:
        lock = locks.lock("cycle")
        for _ in range(WARM_UP_CYCLES):
            lock.acquire().release()
        with CalledFiles() as called:
            lock.acquire().release()
    return called.names


async def postgresql_asyncio(url: str) -> set[str]:
    """Return the files of a cycle on PostgreSQL, in asyncio."""
    async with lockfast.AsyncLocks(url) as locks:
        lock = locks.lock("cycle")
        for _ in range(WARM_UP_CYCLES):
            await (await lock.acquire()).release()
        with CalledFiles() as called:
            await (await lock.acquire()).release()
    return called.names


def main() -> None:
    """Print the files of both cycles."""
    with RedisServer() as redis:
        found = {"Redis, sync": redis_sync(redis.url)}
    with PostgresqlServer() as postgresql:
        found["PostgreSQL, asyncio"] = asyncio.run(postgresql_asyncio(postgresql.url()))
    for cycle, names in found.items():
        print(f"{cycle}: {len(names)} files")
        for name in sorted(names):
            print(f"  {name}")


if __name__ == "__main__":
    main()
