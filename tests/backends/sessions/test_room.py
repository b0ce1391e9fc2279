"""What every store with sessions shares, on a transport in memory and in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from backends.sessions.memory_wire import AsyncMemorySessionsBackend, Store
from virtual import virtual_clock

from lockfast import AsyncLocks, ConfigurationError
from lockfast.events import Event, Reconnected, StoreError
from lockfast.model import Claim, Held, Owner
from lockfast.testing import run_in_virtual_time

TTL = 9.0
PATIENCE = 2.0

Story = Callable[[AsyncLocks, AsyncMemorySessionsBackend, list[str]], Awaitable[None]]


def told_in_virtual_time(story: Story, **options: object) -> None:
    """Run a story with one client in virtual time, and close the client."""

    async def main() -> None:
        clock, told = virtual_clock(), []

        def on_event(event: Event) -> None:
            if not isinstance(event, StoreError | Reconnected):
                told.append(type(event).__name__)

        backend = AsyncMemorySessionsBackend(Store(), clock=clock)
        locks = AsyncLocks.from_backend(backend, clock=clock, ttl=TTL, on_event=on_event, **options)
        await story(locks, backend, told)
        await locks.aclose()

    run_in_virtual_time(main())


def test_heartbeats_that_a_quorum_confirms_keep_a_lease_for_ever() -> None:
    async def story(locks: AsyncLocks, backend: AsyncMemorySessionsBackend, told: list) -> None:
        async with locks.lock("door") as lease:
            await asyncio.sleep(20 * TTL)
            assert lease.remaining > TTL / 4

        await asyncio.sleep(0.1)  # event hooks run concurrently
        assert set(told) == {"Acquired", "Renewed", "Released"}
        assert backend.store.admitted == ["door"]

    told_in_virtual_time(story)


def test_heartbeats_that_no_quorum_confirms_prove_nothing() -> None:
    """A deposed leader answers keep-alives, but the lease ends when its last proof is too old."""

    async def story(locks: AsyncLocks, backend: AsyncMemorySessionsBackend, told: list) -> None:
        lease = await locks.lock("door").acquire()
        await asyncio.sleep(2 * TTL)
        backend.store.is_deposed = True

        await asyncio.sleep(1.01 * TTL)

        assert lease.lost.is_set()
        assert told[-2:] == ["AtRisk", "Lost"]

    told_in_virtual_time(story)


def test_a_heartbeat_that_no_quorum_confirms_is_asked_for_again_soon_and_elsewhere() -> None:
    """An unconfirmed keep-alive is repeated soon, over a new connection, before leases end."""

    async def story(locks: AsyncLocks, backend: AsyncMemorySessionsBackend, _: list) -> None:
        lease = await locks.lock("door").acquire()
        await asyncio.sleep(2 * TTL)
        assert backend.store.hung_up == 0
        beats = backend.store.beats
        backend.store.is_deposed = True

        assert await lease.lost.wait(TTL)

        assert 5 <= backend.store.beats - beats <= 20
        assert backend.store.hung_up > 0

    told_in_virtual_time(story)


def test_a_session_in_jeopardy_that_recovers_keeps_its_leases() -> None:
    """A session that a quorum confirms again in time keeps all of its leases."""

    async def story(locks: AsyncLocks, backend: AsyncMemorySessionsBackend, told: list) -> None:
        leases = [await locks.lock(name).acquire() for name in ("door", "gate")]
        await asyncio.sleep(2 * TTL)
        backend.store.is_deposed = True
        while not all(lease.is_at_risk for lease in leases):  # noqa: ASYNC110 - in virtual time
            await asyncio.sleep(0.1)

        backend.store.is_deposed = False
        await asyncio.sleep(3 * TTL)

        for lease in leases:
            lease.check()
            assert not lease.is_at_risk
        order = [one for one in told if one not in ("Acquired", "Renewed")]
        assert order == ["AtRisk", "AtRisk", "SafeAgain", "SafeAgain"]

    told_in_virtual_time(story)


def test_a_release_waits_for_a_connection_as_long_as_it_may() -> None:
    """A release that has no connection may wait for one until its deadline.

    Only if a member was asked is half of the time reserved for another member.
    """

    async def story(locks: AsyncLocks, backend: AsyncMemorySessionsBackend, told: list) -> None:
        lease = await locks.lock("door").acquire()
        backend.store.is_back_at = virtual_clock().now() + 0.9 * PATIENCE

        await lease.release()

        await asyncio.sleep(0.1)
        assert told[-1] == "Released"
        assert not backend.store.standing

    told_in_virtual_time(story, request_timeout=PATIENCE)


def test_a_line_that_moved_before_the_admission_is_looked_at_again() -> None:
    async def story(locks: AsyncLocks, backend: AsyncMemorySessionsBackend, _: list) -> None:
        backend.store.moves = 2

        lease = await locks.lock("door").acquire()

        assert backend.store.moves == 0
        assert backend.store.admitted == ["door"]
        await lease.release()

    told_in_virtual_time(story)


def test_who_waits_is_woken_by_the_watch_of_who_was_in_front() -> None:
    async def story(locks: AsyncLocks, backend: AsyncMemorySessionsBackend, _: list) -> None:
        lease = await asyncio.create_task(locks.lock("door").acquire())
        waiter = asyncio.create_task(locks.lock("door").acquire())
        await asyncio.sleep(3 * TTL)
        begun_at = virtual_clock().now()

        await lease.release()
        successor = await waiter

        assert virtual_clock().now() - begun_at < 0.1
        assert successor.token > lease.token
        assert backend.store.admitted == ["door", "door"]
        await successor.release()

    told_in_virtual_time(story)


def test_who_was_refused_is_not_carried_on() -> None:
    """A refused claim is forgotten, so that the session becomes idle and memory does not grow."""

    async def story(locks: AsyncLocks, backend: AsyncMemorySessionsBackend, _: list) -> None:
        backend.store.refuses = True

        for _number in range(3):
            with pytest.raises(ConfigurationError, match="nobody may come in"):
                await locks.lock("door").acquire()

        assert backend._reading is not None
        assert not backend._reading.session.carried
        assert not backend._carriers

    told_in_virtual_time(story)


def test_a_store_may_say_when_to_look_again() -> None:
    """A store may set the time of the next look, for changes that no watch reports.

    An example is a name that a client's own clock keeps closed.
    """

    async def story(_: AsyncLocks, backend: AsyncMemorySessionsBackend, __: list) -> None:
        owner, soon = Owner("host", 1).to_text(), virtual_clock().now() + 5
        first = Claim("a", "door", "client", owner, 1, 1, TTL)
        second = Claim("b", "door", "client", owner, 1, 1, TTL)
        await backend.try_acquire(first, deadline=soon)
        backend.store.retry_in = 2.5

        answer = await backend.try_acquire(second, deadline=soon)

        assert isinstance(answer, Held)
        assert answer.retry_in == 2.5
        assert answer.place == 1
        assert [one.owner.host for one in answer.holders] == ["host"]

    told_in_virtual_time(story)


def test_one_that_does_not_queue_may_stay_out_of_the_line() -> None:
    async def story(locks: AsyncLocks, backend: AsyncMemorySessionsBackend, _: list) -> None:
        lease = await locks.lock("door").acquire()

        assert await asyncio.create_task(locks.lock("door").try_acquire()) is None

        assert len(backend.store.standing) == 1
        assert backend._reading is not None
        assert len(backend._reading.session.carried) == 1
        await lease.release()

    told_in_virtual_time(story)
