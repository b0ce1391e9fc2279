"""Which events report what: each acquire ends in one event, and so does each lease."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from both_flavours import FLAVOURS, Flavour
from virtual import virtual

import lockfast
from lockfast import (
    Acquired,
    AcquireTimeout,
    AsyncLocks,
    Detached,
    Event,
    LeaseLost,
    LocksClosed,
    Lost,
    NotAcquired,
    OutcomeUnknown,
    Reconnected,
    Released,
    Skipped,
    StoreError,
    TimedOut,
    Waiting,
    Withdrawn,
)
from lockfast.testing import AsyncFaultyBackend, run_in_virtual_time
from lockfast_challenge.processes import eventually

Story = Callable[[AsyncLocks, AsyncLocks, AsyncFaultyBackend], Awaitable[None]]
TTL = 30.0


@pytest.fixture(params=FLAVOURS)
def flavour(request):
    flavour = Flavour(request.param)
    yield flavour
    flavour.close()


def told_by(story: Story, **options: Any) -> list[Event]:
    """Return the events of a client in the course of a story, in virtual time."""
    told: list[Event] = []

    async def main() -> None:
        locks, backend = virtual(ttl=TTL, on_event=told.append, **options)
        other = AsyncLocks.from_backend(backend.inner, clock=locks._client.clock, ttl=TTL)
        await story(locks, other, backend)
        await locks.aclose()
        await other.aclose()

    run_in_virtual_time(main())
    return told


def test_every_event_says_whose_it_is_and_when(flavour) -> None:
    told: list[Event] = []
    locks = flavour.locks("memory://", on_event=told.append, label="web")
    lease = locks.lock("door").acquire()
    token = lease.token
    lease.release()

    eventually(lambda: len(told) == 2)
    for one, kind in zip(told, (Acquired, Released), strict=True):
        assert type(one) is kind
        assert (one.name, one.token, one.kind, one.store) == ("door", token, "lock", "memory")
        assert one.owner.endswith("(web)")
        assert one.claim == told[0].claim != ""
    assert told[0].at <= told[1].at


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda locks: locks.lock("a"), "lock"),
        (lambda locks: locks.rwlock("a").read(), "read"),
        (lambda locks: locks.rwlock("a").write(), "write"),
        (lambda locks: locks.semaphore("a", capacity=3), "semaphore"),
        (lambda locks: locks.semaphore("a", capacity=3, permits=3), "semaphore"),
        (lambda locks: locks.semaphore("a", capacity=1), "lock"),
    ],
)
def test_the_kind_is_what_was_asked_for(make, kind) -> None:
    told: list[Event] = []
    with lockfast.Locks("memory://", on_event=told.append) as locks, make(locks):
        pass

    assert [one.kind for one in told] == [kind, kind]


def test_an_acquire_that_waits_says_so_once_and_then_how_it_ended() -> None:
    async def story(locks: AsyncLocks, other: AsyncLocks, _: AsyncFaultyBackend) -> None:
        held = await other.lock("door").acquire()
        waiting = asyncio.create_task(locks.lock("door").acquire())
        await asyncio.sleep(5 * TTL)
        await held.release()
        await (await waiting).release()

    waiting, acquired, released = told_by(story)

    assert (type(waiting), type(acquired), type(released)) == (Waiting, Acquired, Released)
    assert waiting.place == 1
    assert waiting.token is None
    assert waiting.claim == acquired.claim == released.claim
    assert acquired.waited == pytest.approx(5 * TTL, abs=0.5)


def test_a_timeout_says_how_long_it_waited_and_where_it_stood() -> None:
    async def story(locks: AsyncLocks, other: AsyncLocks, _: AsyncFaultyBackend) -> None:
        await other.lock("door").acquire()
        with pytest.raises(AcquireTimeout):
            await locks.lock("door").acquire(timeout=3.0)

    waiting, over = told_by(story)

    assert (type(waiting), type(over)) == (Waiting, TimedOut)
    assert over.waited == pytest.approx(3.0, abs=0.1)
    assert (over.place, over.claim) == (1, waiting.claim)


def test_who_does_not_mean_to_wait_has_skipped() -> None:
    async def story(locks: AsyncLocks, other: AsyncLocks, _: AsyncFaultyBackend) -> None:
        await other.lock("door").acquire()
        assert await locks.lock("door").try_acquire() is None
        with pytest.raises(AcquireTimeout):
            await locks.lock("door").acquire(timeout=0)

    assert [type(one) for one in told_by(story)] == [Skipped, Skipped]


def test_a_wait_that_is_cancelled_is_withdrawn() -> None:
    async def story(locks: AsyncLocks, other: AsyncLocks, _: AsyncFaultyBackend) -> None:
        await other.lock("door").acquire()
        cancel = threading.Event()
        one = asyncio.create_task(locks.lock("door").acquire(cancel=cancel))
        another = asyncio.create_task(locks.lock("door").acquire())
        await asyncio.sleep(1.0)
        cancel.set()
        with pytest.raises(NotAcquired):
            await one
        another.cancel()
        with pytest.raises(asyncio.CancelledError):
            await another

    told = told_by(story)

    assert [type(one) for one in told] == [Waiting, Waiting, Withdrawn, Withdrawn]
    assert [one.reason for one in told[2:]] == ["cancelled", "cancelled"]
    assert [one.claim for one in told[:2]] == [one.claim for one in told[2:]]


def test_a_wait_that_closing_ends_is_withdrawn() -> None:
    async def story(locks: AsyncLocks, other: AsyncLocks, _: AsyncFaultyBackend) -> None:
        await other.lock("door").acquire()
        waiting = asyncio.create_task(locks.lock("door").acquire())
        await asyncio.sleep(1.0)
        await locks.aclose()
        with pytest.raises(LocksClosed):
            await waiting

    told = told_by(story)

    assert [type(one) for one in told] == [Waiting, Withdrawn]
    assert told[1].reason == "closed"


def test_a_claim_that_the_store_has_forgotten_is_replaced() -> None:
    async def story(locks: AsyncLocks, other: AsyncLocks, backend: AsyncFaultyBackend) -> None:
        held = await other.lock("door").acquire()
        waiting = asyncio.create_task(locks.lock("door").acquire())
        await asyncio.sleep(1.0)
        [asking] = locks._client.asking()
        await backend.inner.withdraw(asking.claim, deadline=1e12, tombstone=True)
        await asyncio.sleep(2 * TTL)
        await held.release()
        await (await waiting).release()

    told = told_by(story)

    assert [type(one) for one in told] == [Waiting, Withdrawn, Waiting, Acquired, Released]
    assert told[1].reason == "replaced"
    assert told[0].claim == told[1].claim != told[2].claim == told[3].claim


def test_a_store_that_is_away_is_told_request_by_request_and_its_return_once() -> None:
    async def story(locks: AsyncLocks, _: AsyncLocks, backend: AsyncFaultyBackend) -> None:
        lease = await locks.lock("door").acquire()
        backend.go_away()
        await asyncio.sleep(0.5 * TTL)
        backend.come_back()
        await asyncio.sleep(0.5 * TTL)
        await lease.release()

    told = told_by(story)

    errors = [one for one in told if isinstance(one, StoreError)]
    assert {(one.request, one.name) for one in errors} == {("renew", "door")}
    assert {one.reason for one in errors} <= {"unavailable", "unknown"}
    assert all(one.message for one in errors)
    [back] = [one for one in told if isinstance(one, Reconnected)]
    assert 0.1 * TTL < back.away < 0.5 * TTL
    assert told.index(errors[-1]) < told.index(back)


def test_an_acquire_that_the_store_does_not_answer_is_withdrawn() -> None:
    async def story(locks: AsyncLocks, _: AsyncLocks, backend: AsyncFaultyBackend) -> None:
        backend.go_away()
        with pytest.raises((OutcomeUnknown, lockfast.BackendUnavailable)):
            await locks.lock("door").acquire(timeout=1.0)
        backend.come_back()
        await asyncio.sleep(TTL)

    told = told_by(story)

    assert {one.request for one in told if isinstance(one, StoreError)} <= {"acquire", "withdraw"}
    [over] = [one for one in told if isinstance(one, Withdrawn)]
    assert over.reason == "store_error"


def test_a_request_about_several_leases_names_none_of_them() -> None:
    async def story(locks: AsyncLocks, _: AsyncLocks, backend: AsyncFaultyBackend) -> None:
        leases = [await locks.lock(name).acquire() for name in ("a", "b")]
        backend.lose_request("renew")
        await asyncio.sleep(0.5 * TTL)
        for lease in leases:
            await lease.release()

    [error] = [one for one in told_by(story) if isinstance(one, StoreError)]

    assert (error.name, error.token, error.claim, error.request) == ("", None, "", "renew")


def test_a_lease_that_is_handed_over_is_detached_here_and_acquired_there(flavour) -> None:
    told: list[Event] = []
    locks = flavour.locks("memory://handed-over", on_event=told.append)
    lease = locks.lock("door").acquire()
    token = lease.token
    adopted = locks.adopt(lease.detach())
    adopted.release()

    eventually(lambda: len(told) == 4)
    assert [type(one) for one in told] == [Acquired, Detached, Acquired, Released]
    assert {one.token for one in told} == {token}


def test_a_release_that_is_not_answered_is_told_once() -> None:
    """The release ends in one event, although the background and the caller may both repeat it."""

    async def story(locks: AsyncLocks, _: AsyncLocks, backend: AsyncFaultyBackend) -> None:
        lease = await locks.lock("door").acquire()
        backend.lose_reply("release")
        with pytest.raises(OutcomeUnknown):
            await lease.release()
        await lease.release()

    told = told_by(story)

    assert [type(one) for one in told if not isinstance(one, Reconnected)] == [
        Acquired,
        StoreError,
        Released,
    ]


def test_a_loss_says_why_and_how_long_it_was_held() -> None:
    async def story(locks: AsyncLocks, _: AsyncLocks, __: AsyncFaultyBackend) -> None:
        lease = await locks.lock("door", max_hold=5.0).acquire()
        await asyncio.sleep(6.0)
        with pytest.raises(LeaseLost):
            await lease.release()

    [acquired, lost] = told_by(story)

    assert (type(lost), lost.reason, lost.claim) == (Lost, "max_hold", acquired.claim)
    assert lost.held == pytest.approx(5.0, abs=0.1)


def test_events_are_made_as_before() -> None:
    """Events can still be made with positional arguments, without fields that were added later."""
    one = lockfast.Acquired("door", 7, "me", 0.5)

    assert (one.name, one.token, one.owner, one.waited) == ("door", 7, "me", 0.5)
    assert lockfast.Lost("door", 7, "me", "expired").reason == "expired"
    with pytest.raises(AttributeError):
        one.waited = 1.0  # type: ignore[misc]
