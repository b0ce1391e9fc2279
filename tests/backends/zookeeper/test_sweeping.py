"""Nodes of our session without a claim: a create that arrived after its withdrawal."""

from __future__ import annotations

import asyncio
import os

from servers.zookeeper import shared_server

from lockfast import AsyncLocks
from lockfast.backends.zookeeper import requests
from lockfast.backends.zookeeper._async.backend import AsyncZooKeeperBackend
from lockfast.runtime.clock import Clock


def test_a_node_that_came_late_is_swept_away_and_no_other(monkeypatch) -> None:
    """The client deletes a stray node itself, because its session lives on and keeps the node."""
    monkeypatch.setattr("lockfast.backends.sessions._async.session.STRAY_CHECK_KEEPALIVES", 1)

    async def main() -> None:
        url, clock = shared_server().url, Clock()
        backend = AsyncZooKeeperBackend(
            url=url, location=url, clock=clock, namespace=os.urandom(8).hex()
        )
        locks = AsyncLocks.from_backend(backend, clock=clock, ttl=6.0)
        lease = await locks.lock("door").acquire()
        closing = await locks.lock("job", min_hold=60.0).acquire()
        await closing.release()
        session = backend._reading.session
        late = requests.Create2(
            f"{backend._address.root}/door/{os.urandom(16).hex()}-1-",
            b"",
            backend._address.acl,
            requests.EPHEMERAL_SEQUENTIAL,
        )
        await session.transport._connection.ask(late, deadline=clock.now() + 5)
        assert len((await locks.inspect("door")).line) == 1

        async with asyncio.timeout(30):
            while (await locks.inspect("door")).line:  # noqa: ASYNC110 - the store is what changes
                await asyncio.sleep(0.05)

        assert lease.is_trusted
        assert len((await locks.inspect("door")).holders) == 1
        assert len((await locks.inspect("job")).closing) == 1
        await locks.aclose()

    asyncio.run(main())
