"""The public API as type checkers see it; checked by mypy and pyright, never run."""

from __future__ import annotations

import asyncio
import threading
from typing import assert_type

import lockfast
from lockfast import fencing


def sync_examples() -> None:
    locks = lockfast.Locks("memory://", ttl=10.0, label="web")
    lock = locks.lock("door", ttl=5.0, timeout=None, renew=True)
    assert_type(lock, lockfast.Lock)
    with lock as lease:
        assert_type(lease, lockfast.Lease)
        assert_type(lease.token, int)
        assert_type(locks.is_current(lease.sequencer), bool)
        assert_type(lease.lost.wait(1.0), bool)
        assert_type(lease.guard(), lockfast.RevisionGuard)
        assert_type(lease.guard().key, bytes)
        assert_type(lease.guard().create_revision, int)
    assert_type(lock.try_acquire(), lockfast.Lease | None)
    with lock.acquire(timeout=5) as again:
        assert_type(again.remaining, float)
    with locks.all("a", "b") as leases:
        assert_type(leases, tuple[lockfast.Lease, ...])
    assert_type(lockfast.Locks.from_clients([object()], max_ttl=30), lockfast.Locks)
    assert_type(locks.rwlock("config").read(), lockfast.Lock)
    assert_type(locks.semaphore("pool", capacity=3), lockfast.Semaphore)
    assert_type(locks.striped("user", 17, stripes=8, ttl=5.0), lockfast.Lock)
    stock = locks.sharded("stock", shards=8, timeout=5)
    assert_type(stock.try_acquire_any(), lockfast.ShardLease | None)
    with stock as any_shard, stock.acquire_any(timeout=5) as same_shard:
        assert_type(any_shard, lockfast.ShardLease)
        assert_type(same_shard.shard, int)
    seen = locks.inspect("door")
    assert_type(seen, lockfast.Inspection)
    assert_type(seen.closing, tuple[lockfast.Closing, ...])
    assert_type(seen.closed_for, float)
    assert_type(seen.line[0].age, float)
    assert_type(locks.break_("door", token=7), tuple[lockfast.Holder, ...])
    assert_type(locks.break_("door", owner="saga-42"), tuple[lockfast.Holder, ...])

    @locks.locked("order:{number}", if_held="skip")
    def ship(number: int, *, fast: bool = False) -> str:
        return f"{number} {fast}"

    assert_type(ship(7, fast=True), str | None)

    @locks.locked("order:{number}", if_held="skip", skipped=False)
    def told(number: int) -> str:
        return str(number)

    assert_type(told(7), str | bool)

    @locks.locked("order:{number}", if_held="raise", ttl=5.0)
    def insistent(number: int) -> str:
        return str(number)

    assert_type(insistent(7), str)

    @locks.locked(lambda number: f"order:{number}")
    def waiting(number: int) -> str:
        return str(number)

    assert_type(waiting(7), str)
    locks.locked("a", skipped=None)  # type: ignore[call-overload] # pyright: ignore[reportCallIssue]

    @lock
    def guarded(number: int) -> str:
        return str(number)

    assert_type(guarded(7), str)


def sync_handing_over(locks: lockfast.Locks) -> None:
    lease = locks.lock("door").acquire(timeout=5, cancel=threading.Event())
    assert_type(lease.detach(), str)
    assert_type(locks.adopt("text", renew=True, max_hold=60.0), lockfast.Lease)
    locks.adopt("text", ttl=5.0)  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]
    locks.lock("door").acquire(cancel=True)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    both = locks.all("a", "b")
    assert_type(both.acquire(), tuple[lockfast.Lease, ...])
    both.release()


async def async_handing_over(locks: lockfast.AsyncLocks) -> None:
    lease = await locks.lock("door").acquire(timeout=5, cancel=asyncio.Event())
    await locks.adopt(lease.detach())  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    assert_type(await lease.detach(), str)
    assert_type(await locks.adopt("text"), lockfast.AsyncLease)
    assert_type(await locks.break_("door", token=7), tuple[lockfast.Holder, ...])
    both = locks.all("a", "b")
    assert_type(await both.acquire(), tuple[lockfast.AsyncLease, ...])
    await both.release()


def fencing_examples(lease: lockfast.Lease, connection: object, client: object) -> None:
    fencing.fenced_update(connection, "stock", {"id": 7}, lease, {"left": 3})
    fencing.fenced_upsert(connection, ("shop", "stock"), {"id": 7}, ("door", 33), {}, fence="mark")
    fencing.seal(connection, "stock", {"id": 7}, fencing.passed_on(lease.sequencer, name="door"))
    fencing.seal(connection, "stock", {"id": 7}, 33)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    fencing.RedisGuard(client, "mark").command(lease, "SET", "key", "value")
    fencing.FencedFile("report.csv").write(lease, b"content")
    assert_type(fencing.fencing_headers(lease), dict[str, str])


async def async_fencing_examples(lease: lockfast.AsyncLease, connection: object) -> None:
    await fencing.async_fenced_update(connection, "stock", {"id": 7}, lease, {"left": 3})
    await fencing.async_fenced_upsert(connection, "stock", {"id": 7}, lease, {})
    await fencing.async_seal(connection, "stock", {"id": 7}, lease.sequencer)
    await fencing.AsyncRedisGuard(object(), b"mark").seal(lease)
    marks: fencing.Marks = fencing.MemoryMarks()
    assert_type(await marks.raise_to("door", 33), int)


async def async_examples() -> None:
    async with lockfast.AsyncLocks() as locks:
        lock = locks.lock("door")
        async with lock as lease:
            assert_type(lease, lockfast.AsyncLease)
            assert_type(await lease.lost.wait(), bool)
        async with await lock.acquire(timeout=5) as again:
            assert_type(again.token, int)
        assert_type(await lock.try_acquire(), lockfast.AsyncLease | None)
        assert_type(await lock.locked(), bool)
        assert_type(await asyncio.create_task(lock.acquire(timeout=5)), lockfast.AsyncLease)
        async for one in locks.survey("door"):
            assert_type(one, lockfast.Inspection)

        @locks.locked("order:{number}")
        async def ship(number: int) -> str:
            return str(number)

        assert_type(await ship(7), str)

        @locks.locked("order:{number}", if_held="skip", skipped=0)
        async def perhaps(number: int) -> str:
            return str(number)

        assert_type(await perhaps(7), str | int)


async def a_forgotten_await(lock: lockfast.AsyncLock) -> None:
    if lock.try_acquire():  # pyright: ignore[reportGeneralTypeIssues]
        return
