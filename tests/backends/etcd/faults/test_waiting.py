"""Many waiters: a release wakes one, and dead waiters delay nobody for long."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest

from lockfast import AsyncLocks, Locks
from lockfast_challenge.processes import eventually

WAITERS = 500


@pytest.fixture
def own_name() -> str:
    return f"door-{os.urandom(4).hex()}"


# Five hundred acquires, one after the other: beside two other test runs they took over four
# minutes.
@pytest.mark.timeout(900)
def test_a_release_wakes_one_of_five_hundred(own_server, own_name):
    """Each waiter watches only the claim in front of its own, so a release causes one event."""

    async def run(lease: Any) -> tuple[int, list[int]]:
        async with AsyncLocks(own_server.url, ttl=900, request_timeout=60.0) as locks:
            tokens: list[int] = []

            async def wait() -> None:
                async with locks.lock(own_name) as ours:
                    tokens.append(ours.token)

            tasks = [asyncio.create_task(wait()) for _ in range(WAITERS)]
            await asyncio.to_thread(_until_waiting, own_server.url, own_name)
            before = own_server.figure("etcd_debugging_mvcc_events_total")
            await asyncio.to_thread(lease.release)
            await asyncio.gather(*tasks)
            return own_server.figure("etcd_debugging_mvcc_events_total") - before, tokens

    with Locks(own_server.url, ttl=900, request_timeout=60.0) as holders:
        lock = holders.lock(own_name)
        lease = lock.acquire()
        events, tokens = asyncio.run(run(lease))

    assert tokens == sorted(tokens)
    assert len(tokens) == WAITERS
    # Clients do not watch holds being put and deleted; renewals cause the few other events.
    assert events <= WAITERS + 20


def _until_waiting(url: str, name: str) -> None:
    with Locks(url, ttl=900, request_timeout=60.0) as locks:
        eventually(lambda: len(locks.inspect(name).line) == WAITERS, within=400, what="all wait")


def test_threads_wait_without_asking(own_server, own_name, flavour):
    """While nothing happens, waiters send the server nothing but keep-alives for their session."""
    holder = flavour.locks(own_server.url, ttl=60).lock(own_name).acquire()
    waiters = flavour.locks(own_server.url, ttl=60)
    waiting = [flavour.start(waiters.lock(own_name).acquire, timeout=60) for _ in range(20)]
    watcher = flavour.locks(own_server.url, ttl=60)
    eventually(lambda: len(watcher.inspect(own_name).line) == 20, what="all wait")
    before = own_server.figure("etcd_mvcc_txn_total") + own_server.figure("etcd_mvcc_range_total")
    begun = flavour.clock.now()

    eventually(lambda: flavour.clock.now() > begun + 1.0, what="a second passes")
    after = own_server.figure("etcd_mvcc_txn_total") + own_server.figure("etcd_mvcc_range_total")

    assert after - before <= 6
    holder.release()
    for _ in range(20):
        done = eventually_one(waiting)
        done.result().release()


def eventually_one(waiting):
    """Return a waiter that has the lock, and remove it from the list."""
    eventually(lambda: any(one.done() for one in waiting), what="the next one has it")
    found = next(one for one in waiting if one.done())
    waiting.remove(found)
    return found


def test_waiters_that_are_killed_hold_nobody_up_beyond_their_ttl(
    own_server, own_name, flavour, puppet
):
    """The killed client's session ends, and with the session all of its claims at once."""
    holder = flavour.locks(own_server.url, ttl=60).lock(own_name).acquire()
    dying = puppet(flavour.name, own_server.url, ttl=2.0)
    dying.ask("let_many_wait", own_name, 20)
    watcher = flavour.locks(own_server.url, ttl=60)
    eventually(lambda: len(watcher.inspect(own_name).line) == 20, what="they wait")
    last = flavour.start(flavour.locks(own_server.url, ttl=60).lock(own_name).acquire, timeout=40)
    eventually(lambda: len(watcher.inspect(own_name).line) == 21, what="all wait")

    dying.kill()
    killed_at = flavour.clock.now()
    holder.release()

    lease = last.result(40)
    # A waiter that was admitted at that moment may have left a hold, which lasts for another ttl.
    assert flavour.clock.now() < killed_at + 2 * 2.0 + 5.0
    lease.release()


def test_a_client_that_does_nothing_costs_the_server_nothing(own_server, monkeypatch):
    """A client closes a session that has carried no claim for a while."""
    monkeypatch.setattr("lockfast.backends.sessions._sync.session.SESSION_IDLE_SECONDS", 0.2)
    before = len(own_server.ask("lease/leases").get("leases", []))
    with Locks(own_server.url, ttl=1) as locks:
        locks.lock("door").acquire().release()
        eventually(
            lambda: len(own_server.ask("lease/leases").get("leases", [])) <= before,
            what="its lease is gone",
        )
        locks.lock("door").acquire().release()
