"""A client with group commit, every statement counted, and a server that stalls."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from lockfast.backends.postgresql._async.transport import AsyncPostgresqlTransport
from lockfast.backends.postgresql.address import address_of_url
from lockfast.backends.postgresql.statements import PostgresqlStatements
from lockfast.backends.sql._async import group_commit as async_together
from lockfast.backends.sql._async.group_commit import AsyncGroupCommit
from lockfast.backends.sql._sync.group_commit import GroupCommit
from lockfast.model import Claim
from lockfast.runtime.clock import Clock
from lockfast_challenge.processes import eventually

OWNER = '{"host": "here", "pid": 1, "label": "", "context": ""}'
PATIENCE = 20.0
"""Timeout that only a hang exceeds, in seconds."""

STANDS = "wait_event_type = 'Lock' AND strpos(query, '{}') > 0"
"""Selects the sessions that wait for a lock in a statement with this text."""


def claim(name: str, claim_id: str | None = None, **more: Any) -> Claim:
    name_of_claim = claim_id or os.urandom(8).hex()
    return Claim(name_of_claim, name, "client", OWNER, 1, 1, more.pop("ttl", 30.0), **more)


class Subject:
    """The group commit of one client; every call blocks, and every statement is counted."""

    def __init__(self, transport, statements: Any, *, batch: str = "WITH") -> None:
        self._batch = batch
        self.flavour = flavour = transport.flavour
        self.transport = transport
        kind = GroupCommit if flavour.name == "sync" else AsyncGroupCommit
        self.inner: Any = flavour.call(
            lambda: kind(transport.inner, statements, clock=flavour.clock)
        )
        self.asked: list[str] = []
        self.trips = 0
        real = transport.inner.send_all

        def send_all(requests: Any, **more: Any) -> Any:
            self.trips += 1
            self.asked.extend(one.statement.split()[0] for one in requests)
            return real(requests, **more)

        transport.inner.send_all = send_all

    def call(self, verb: str, what: Any, within: float = PATIENCE) -> Any:
        deadline = self.flavour.clock.now() + within
        return self.flavour.call(getattr(self.inner, verb), what, deadline=deadline)

    def start(self, verb: str, what: Any, within: float = PATIENCE) -> Future[Any]:
        return self.flavour.start(self.call, verb, what, within)

    def know(self, *names: str) -> None:
        """Make the store record the names and leave them idle, which is their usual state."""
        for name in names:
            one = claim(name)
            request = self.inner._statements.take_new(one)
            assert self.transport.run(request)
            assert self.call("give_back", one)
        self.asked.clear()
        self.trips = 0

    @property
    def number_waiting(self) -> int:
        return len(self.inner._queue)

    @property
    def together(self) -> int:
        """The number of statements that contained several operations."""
        return self.asked.count(self._batch)

    def close(self) -> None:
        self.flavour.call(self.inner.close)


@contextmanager
def locked_out(server, tables) -> Iterator[Any]:
    """Make every statement on the table wait, as if the server were slow."""
    with server.connect() as connection, connection.transaction():
        connection.execute(f"LOCK TABLE {tables.door} IN ACCESS EXCLUSIVE MODE")
        yield connection


def standing(server, text: str) -> int:
    """Return how many sessions wait for a lock in a statement with this text."""
    where = STANDS.format(text)
    statement = f"SELECT count(*) FROM pg_stat_activity WHERE {where}"  # noqa: S608 - our own
    return int(server.run(statement)[0][0])


def busy(subject: Subject, server) -> list[Future[Any]]:
    """Fill the pipeline: start as many batches as may be in flight."""
    first = [
        subject.start("take", claim(f"first {i}")) for i in range(async_together.BATCHES_IN_FLIGHT)
    ]
    eventually(lambda: standing(server, "RETURNING d.token") == len(first))
    return first


def on_a_loop(
    server, statements: PostgresqlStatements, main: Callable[..., Awaitable[None]]
) -> None:
    """Run a test that concerns asyncio only."""

    async def run() -> None:
        clock = Clock()
        address = address_of_url(server.url(), where="here", options={})
        transport = AsyncPostgresqlTransport(address, clock=clock)
        together = AsyncGroupCommit(transport, statements, clock=clock)
        await main(together, clock)
        await together.close()
        await transport.close()

    asyncio.run(run())


async def until(happens: Callable[[], Any]) -> None:
    await asyncio.to_thread(eventually, happens)


def names(count: int) -> list[str]:
    return [f"name {i}" for i in range(count)]


FIRST = [f"first {i}" for i in range(async_together.BATCHES_IN_FLIGHT)]
