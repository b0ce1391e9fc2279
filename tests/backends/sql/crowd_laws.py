"""Many claims of one client for one name at once, on every SQL server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from both_flavours import number_waiting
from fault_scene import new_name

from lockfast import AsyncLocks, Locks, LocksClosed
from lockfast.core.renewal import trusted_until
from lockfast_challenge.processes import eventually
from lockfast_challenge.servers.proxy import Proxy

CROWD = 200

ON_THE_WAY = 0.05
"""Latency of a message in either direction, in seconds.

If its claims went one by one over four connections, with three round trips each, the crowd would
need fifteen seconds to join the line.
"""

REQUEST = 10.0
"""Seconds; enough for one request on a slow machine, but not for the whole crowd in sequence."""

PATIENCE = 60.0

Outcomes = list[BaseException | None]


@contextmanager
def crowd_of_threads(url: str, name: str) -> Iterator[tuple[Callable[[], int], Outcomes]]:
    """Let threads of one client wait.

    Yield a function that counts the waiting claims, and the outcomes of the threads that ended.
    """
    outcomes: Outcomes = []
    locks = Locks(url, request_timeout=REQUEST)

    def acquire() -> None:
        try:
            locks.lock(name).acquire(timeout=10 * PATIENCE)
        except Exception as error:  # noqa: BLE001 - the test looks at it
            outcomes.append(error)
        else:
            outcomes.append(None)

    threads = [threading.Thread(target=acquire) for _ in range(CROWD)]
    for one in threads:
        one.start()
    yield lambda: number_waiting(locks), outcomes
    locks.close()
    for one in threads:
        one.join(PATIENCE)
        assert not one.is_alive()


@contextmanager
def crowd_of_tasks(url: str, name: str) -> Iterator[tuple[Callable[[], int], Outcomes]]:
    """Let tasks of one client wait, on a loop in its own thread; yield as `crowd_of_threads`."""
    outcomes: Outcomes = []
    opened: list[Any] = []
    is_over = threading.Event()

    async def play() -> None:
        locks = AsyncLocks(url, request_timeout=REQUEST)
        acquires = [locks.lock(name).acquire(timeout=10 * PATIENCE) for _ in range(CROWD)]
        tasks = [asyncio.ensure_future(one) for one in acquires]
        for one in tasks:
            one.add_done_callback(lambda one: outcomes.append(one.exception()))
        opened.append(locks)
        await asyncio.to_thread(is_over.wait)
        await locks.aclose()
        await asyncio.gather(*tasks, return_exceptions=True)

    thread = threading.Thread(target=lambda: asyncio.run(play()))
    thread.start()
    eventually(lambda: opened)
    yield lambda: number_waiting(opened[0]), outcomes
    is_over.set()
    thread.join(PATIENCE)
    assert not thread.is_alive()


class CrowdLaws:
    """Laws for a crowd of claims; they need the fixtures `server` and `flavour`."""

    def test_a_grant_is_counted_from_when_its_request_had_a_connection(self, server, flavour):
        """The wait for a connection does not use up the ttl of the grant that follows."""
        ttl, name = 3 * PATIENCE, new_name()
        locks = flavour.locks(server.url(), connections=1, ttl=ttl, request_timeout=PATIENCE)
        locks.lock(name).acquire().release()
        client = getattr(locks, "_inner", locks)._client
        pool = client.backend._transport._pool
        connection = flavour.call(pool.take, flavour.clock.now() + PATIENCE)
        waiting = flavour.start(locks.lock(name).acquire, timeout=PATIENCE)
        eventually(lambda: pool._waiting, what="it waits for the one connection")

        freed_at = flavour.clock.now()
        flavour.call(pool.put_back, connection)
        lease = waiting.result(PATIENCE)

        [hold] = client.holds.on(name)
        assert hold.until >= trusted_until(sent_at=freed_at, ttl=ttl)
        lease.release()

    @pytest.mark.parametrize("crowd", [crowd_of_threads, crowd_of_tasks])
    def test_a_crowd_joins_the_line_however_long_that_takes_it(self, server, crowd):
        """A crowd joins in batches, and no claim fails because it waited long for a connection."""
        name = new_name()
        with Locks(server.url(), request_timeout=30) as others, others.lock(name):
            with Proxy(server.port) as proxy:
                proxy.delay(ON_THE_WAY)
                url = server.url().replace(str(server.port), str(proxy.port))
                with crowd(url, name) as (number, outcomes):
                    eventually(
                        lambda: number() == CROWD or outcomes, within=PATIENCE, what="all wait"
                    )
                    assert outcomes == []
                    assert len(others.inspect(name).line) == CROWD

            assert all(isinstance(one, LocksClosed) for one in outcomes)
            eventually(lambda: not others.inspect(name).line, what="nobody is left in line")
