"""A commit that was sent but not answered may still take effect, so the lease outlives it.

The path to the database is cut during the commit. The client learns that its connection is gone;
the server receives the commit later, as if it had waited for its disk or its standby.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import psycopg
import pymysql
import pytest
import sqlalchemy
from sellers import AlchemySeller, CursorSeller, Seller, Shop, opened, settled
from servers import mariadb, postgresql
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from lockfast import LeaseLost
from lockfast.sql_rows import hold_until_commit
from lockfast_challenge.processes import EVENTUALLY_SECONDS, eventually
from lockfast_challenge.servers.proxy import Proxy

WAYS = (
    "psycopg",
    "psycopg asyncio",
    "psycopg block",
    "psycopg block asyncio",
    "pymysql",
    "sqlalchemy connection psycopg",
    "sqlalchemy connection psycopg asyncio",
    "sqlalchemy connection pymysql",
    "sqlalchemy connection asyncmy asyncio",
    "sqlalchemy session psycopg",
    "sqlalchemy session psycopg asyncio",
    "sqlalchemy session pymysql",
    "sqlalchemy session asyncmy asyncio",
)


class BlockSeller(Seller):
    """A seller whose transaction is a block of psycopg's `transaction()`."""

    async def write(self, left: int) -> None:
        self._left = left

    async def commit(self) -> None:
        if hasattr(self.target, "__aenter__"):
            async with self.target.transaction():
                await super().write(self._left)
        else:
            with self.target.transaction():
                await super().write(self._left)


class LossyShop:
    """A shop whose sellers reach the database over a path that is cut at the next commit."""

    def __init__(self, kind: str, shop: Shop, proxy: Proxy) -> None:
        self._kind = kind
        self._proxy = proxy
        self.left = shop.left
        self.table = shop.table

    async def seller(self) -> Seller:
        """Connect a seller, and lose its next commit on the way to the server."""
        seller = await self._connected()
        # MySQL's drivers send SET AUTOCOMMIT when they connect.
        commits = self._proxy.hold_requests(
            lambda request: b"COMMIT" in request.data and b"AUTOCOMMIT" not in request.data
        )
        threading.Thread(target=self._cut_when, args=[commits], daemon=True).start()
        return seller

    def _cut_when(self, met: threading.Event) -> None:
        if met.wait(EVENTUALLY_SECONDS):
            self._proxy.cut(told=True)

    def deliver(self) -> None:
        """Deliver to the server what was held back on the path."""
        self._proxy.let_through()

    async def _connected(self) -> Seller:
        words, port = self._kind.split(), self._proxy.port
        place = f"postgres@127.0.0.1:{port}/postgres"
        if words[0] == "pymysql":
            return CursorSeller(
                pymysql.connect(host="127.0.0.1", port=port, user="root", database="test"),
                self.table,
            )
        if words[0] == "psycopg":
            make = BlockSeller if "block" in words else Seller
            by = psycopg.AsyncConnection if "asyncio" in words else psycopg.Connection
            return make(await settled(by.connect(f"postgresql://{place}")), self.table)
        _, what, driver, *_ = words
        if driver != "psycopg":
            place = f"root@127.0.0.1:{port}/test"
        scheme = "postgresql" if driver == "psycopg" else "mysql"
        url = f"{scheme}+{driver}://{place}"
        if "asyncio" in words:
            lazy = create_async_engine(url, poolclass=NullPool)
            return AlchemySeller(
                AsyncSession(lazy) if what == "session" else await lazy.connect(), self.table
            )
        engine = sqlalchemy.create_engine(url, poolclass=NullPool)
        return AlchemySeller(Session(engine) if what == "session" else engine.connect(), self.table)


@pytest.fixture
def lossy(kind, tmp_path) -> Iterator[LossyShop]:
    on_mariadb = "mysql" in kind or "asyncmy" in kind
    server = mariadb.shared_server() if on_mariadb else postgresql.shared_server()
    with (
        opened("pymysql" if on_mariadb else "psycopg", tmp_path) as shop,
        Proxy(server.port) as proxy,
    ):
        yield LossyShop(kind, shop, proxy)


async def sell_in_vain(lossy: LossyShop, locks: Any, *, ttl: float, in_block: bool = False) -> Any:
    """Commit under a lease, and lose the connection while doing so; return the seller."""
    seller = await lossy.seller()
    lease = await settled(locks.lock("stock", ttl=ttl).acquire())
    if in_block:
        await settled(lease.__aenter__() if hasattr(lease, "__aenter__") else lease.__enter__())
    hold_until_commit(lease, seller.target)
    await seller.write(9)
    with pytest.raises((psycopg.Error, pymysql.Error, sqlalchemy.exc.DBAPIError, LeaseLost)):
        await seller.commit()
    if in_block:
        leave = getattr(lease, "__aexit__", None) or lease.__exit__
        await settled(leave(None, None, None))
    return seller


@pytest.mark.parametrize("kind", WAYS)
def test_a_commit_without_an_answer_releases_nothing(lossy, play, caplog):
    """Neither the end of the block nor closing the connection releases the lease."""

    async def scene(ours, theirs):
        seller = await sell_in_vain(lossy, ours, ttl=600, in_block=True)
        after_commit = await settled(theirs.lock("stock").try_acquire())
        with contextlib.suppress(Exception):  # some drivers complain about the lost connection
            await seller.close()
        return after_commit, await settled(theirs.lock("stock").try_acquire())

    others = play(scene)

    assert others == (None, None)
    assert lossy.left() == 10
    lossy.deliver()
    eventually(lambda: lossy.left() == 9, what="the server has committed")
    assert "a commit under the lease on 'stock' was sent and not answered" in caplog.text


@pytest.mark.parametrize("kind", ["psycopg", "psycopg asyncio"])
def test_its_own_thread_or_task_does_not_enter_again_meanwhile(lossy, play):
    """A retry in the same thread or task would read the old row too."""

    async def scene(ours, _theirs):
        await sell_in_vain(lossy, ours, ttl=600)
        return await settled(ours.lock("stock").try_acquire())

    assert play(scene) is None
    lossy.deliver()


@pytest.mark.parametrize("kind", ["psycopg", "psycopg asyncio"])
def test_the_lease_then_ends_by_its_ttl(lossy, play):
    async def scene(ours, theirs):
        with contextlib.suppress(LeaseLost):  # if the machine stalled for that long
            await sell_in_vain(lossy, ours, ttl=1)
        return await settled(theirs.lock("stock").acquire(timeout=EVENTUALLY_SECONDS))

    assert play(scene) is not None
    lossy.deliver()
