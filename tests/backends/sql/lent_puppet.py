"""A separate process that locks over its application's connections, and can fork.

lent_puppet.py ADDRESS KIND URL
"""

from __future__ import annotations

import os
import sys
from typing import Any

import psycopg
import psycopg_pool
import sqlalchemy
from puppets import serve

from lockfast import Locks


def made(kind: str, url: str) -> Any:
    if kind == "pool":
        return psycopg_pool.ConnectionPool(url, min_size=1, max_size=4, open=True)
    if kind == "engine":
        return sqlalchemy.create_engine(url.replace(":", "+psycopg:", 1))
    return psycopg.connect(url, autocommit=True)


class LentPuppet:
    def __init__(self, address: str, kind: str, url: str) -> None:
        self._address = address
        self._client = made(kind, url)
        self._locks = Locks.from_client(self._client, request_timeout=20.0)
        self._leases: dict[str, Any] = {}

    def serve(self) -> None:
        serve(self, self._address)
        os._exit(0)

    # -- its commands ------------------------------------------------------------------

    def acquire(self, name: str) -> int:
        lease = self._leases[name] = self._locks.lock(name).acquire(timeout=30)
        return int(lease.token)

    def check(self, name: str) -> None:
        self._leases[name].check()

    def release(self, name: str) -> None:
        self._leases[name].release()

    def lent(self) -> int:
        """Close the locks, and return how many connections have not come back."""
        self._locks.close()
        client = self._client
        if hasattr(client, "getconn"):
            stats = client.get_stats()
            return int(stats["pool_size"] - stats["pool_available"])
        return int(client.lock.locked() if hasattr(client, "lock") else client.pool.checkedout())

    def dispose(self) -> None:
        self._client.dispose(close=False)

    def leave(self) -> None:
        self._locks.close()

    def fork(self) -> None:
        if os.fork() == 0:
            self.serve()


if __name__ == "__main__":
    LentPuppet(*sys.argv[1:]).serve()
