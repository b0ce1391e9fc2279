"""A seller that seals, reads and writes as the page shows, and stops at a chosen step.

frozen_seller.py ADDRESS STORE NAME SHOP PLACE BOUND
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from puppets import serve
from sqlalchemy import create_engine, text

from lockfast import Locks
from lockfast.fencing import fenced_update, seal

TTL = 2.0

LAMP = {"item": "lamp"}


class Shop:
    """Sells lamps by the recipe of docs/how-to/fence-a-row.md, on any database."""

    def __init__(self, url: str, **options: Any) -> None:
        self._engine = create_engine(url, connect_args=options)

    def prepare(self) -> None:
        with self._engine.begin() as connection:
            connection.execute(text("DROP TABLE IF EXISTS lamps"))
            connection.execute(
                text("CREATE TABLE lamps (item VARCHAR(9) PRIMARY KEY, stock INT, fence BIGINT)")
            )
            connection.execute(text("INSERT INTO lamps (item, stock) VALUES ('lamp', 10)"))

    def stock(self) -> int:
        with self._engine.connect() as connection:
            return connection.execute(text("SELECT stock FROM lamps")).scalar_one()

    def sell(self, lease: Any, pass_by: Callable[[str, Any], None] = lambda *_: None) -> int:
        """Sell one lamp; call `pass_by` at each step, with the connection."""
        with self._engine.begin() as connection:
            seal(connection, "lamps", LAMP, lease)
        count = self.stock()
        with self._engine.begin() as connection:
            pass_by("before the write", connection)
            fenced_update(connection, "lamps", LAMP, lease, {"stock": count - 1})
            pass_by("before the commit", connection)
        return count - 1

    def close(self) -> None:
        self._engine.dispose()


class FrozenSeller:
    """The process that stops."""

    def __init__(self, store: str, name: str, url: str, place: str, bound: str) -> None:
        self._lock = Locks(store, ttl=TTL, request_timeout=30).lock(name)
        self._shop = Shop(url)
        self._place = place
        self._bound = bound

    def sell(self) -> str | int:
        """Return how many lamps are left, or the error as text."""
        lease = self._good_lease()
        try:
            return self._shop.sell(lease, self._pass_by)
        except Exception as error:  # noqa: BLE001 - the test looks at it
            return repr(error)  # another process may be unable to unpickle a driver's error

    def _pass_by(self, place: str, connection: Any) -> None:
        if place == self._place:
            if self._bound:  # not earlier: a busy machine may stall before this step
                connection.execute(text(self._bound))
            os.kill(os.getpid(), signal.SIGSTOP)

    def _good_lease(self) -> Any:
        while True:
            lease = self._lock.acquire(timeout=60)
            if lease.is_trusted:  # not if a busy machine stalled for longer than the ttl
                # The guard refuses a lease that is known to be over. A frozen process cannot know,
                # so it presents the bare token.
                return (lease.name, lease.token)


if __name__ == "__main__":
    address, *rest = sys.argv[1:]
    serve(FrozenSeller(*rest), address)
