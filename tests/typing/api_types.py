"""What type checkers see of the public surface; checked by mypy and pyright, never run."""

from __future__ import annotations

import asyncio
import threading
from typing import assert_type

import holdfast
from holdfast import fencing


def sync_examples() -> None:
    locks = holdfast.Locks("memory://", ttl=10.0, label="web")
    lock = locks.lock("door", ttl=5.0, timeout=None, renew=True)
    assert_type(lock, holdfast.Lock)
    with lock as lease:
        assert_type(lease, holdfast.Lease)
        assert_type(lease.token, int)
        assert_type(locks.is_current(lease.sequencer), bool)
        assert_type(lease.lost.wait(1.0), bool)
        assert_type(lease.guard(), holdfast.RevisionGuard)
        assert_type(lease.guard().key, bytes)
        assert_type(lease.guard().create_revision, int)
    assert_type(lock.try_acquire(), holdfast.Lease | None)
    with lock.acquire(timeout=5) as again:
        assert_type(again.remaining, float)
    with locks.all("a", "b") as leases:
        assert_type(leases, tuple[holdfast.Lease, ...])
    assert_type(holdfast.Locks.from_clients([object()], max_ttl=30), holdfast.Locks)
    assert_type(locks.rwlock("config").read(), holdfast.Lock)
    assert_type(locks.semaphore("pool", capacity=3), holdfast.Semaphore)
    assert_type(locks.striped("user", 17, stripes=8, ttl=5.0), holdfast.Lock)
    stock = locks.sharded("stock", shards=8, timeout=5)
    assert_type(stock.try_acquire_any(), holdfast.ShardLease | None)
    with stock as any_shard, stock.acquire_any(timeout=5) as same_shard:
        assert_type(any_shard, holdfast.ShardLease)
        assert_type(same_shard.shard, int)
    seen = locks.inspect("door")
    assert_type(seen, holdfast.Inspection)
    assert_type(seen.closing, tuple[holdfast.Closing, ...])
    assert_type(seen.closed_for, float)
    assert_type(seen.line[0].age, float)
    assert_type(locks.break_("door", token=7), tuple[holdfast.Holder, ...])
    assert_type(locks.break_("door", owner="saga-42"), tuple[holdfast.Holder, ...])

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


def sync_handing_over(locks: holdfast.Locks) -> None:
    lease = locks.lock("door").acquire(timeout=5, cancel=threading.Event())
    assert_type(lease.detach(), str)
    assert_type(locks.adopt("text", renew=True, max_hold=60.0), holdfast.Lease)
    locks.adopt("text", ttl=5.0)  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]
    locks.lock("door").acquire(cancel=True)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    both = locks.all("a", "b")
    assert_type(both.acquire(), tuple[holdfast.Lease, ...])
    both.release()


async def async_handing_over(locks: holdfast.AsyncLocks) -> None:
    lease = await locks.lock("door").acquire(timeout=5, cancel=asyncio.Event())
    await locks.adopt(lease.detach())  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    assert_type(await lease.detach(), str)
    assert_type(await locks.adopt("text"), holdfast.AsyncLease)
    assert_type(await locks.break_("door", token=7), tuple[holdfast.Holder, ...])
    both = locks.all("a", "b")
    assert_type(await both.acquire(), tuple[holdfast.AsyncLease, ...])
    await both.release()


def fencing_examples(lease: holdfast.Lease, connection: object, client: object) -> None:
    fencing.fenced_update(connection, "stock", {"id": 7}, lease, {"left": 3})
    fencing.fenced_upsert(connection, ("shop", "stock"), {"id": 7}, ("door", 33), {}, fence="mark")
    fencing.seal(connection, "stock", {"id": 7}, fencing.passed_on(lease.sequencer, name="door"))
    fencing.seal(connection, "stock", {"id": 7}, 33)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    fencing.RedisGuard(client, "mark").command(lease, "SET", "key", "value")
    fencing.FencedFile("report.csv").write(lease, b"content")
    assert_type(fencing.fencing_headers(lease), dict[str, str])


async def async_fencing_examples(lease: holdfast.AsyncLease, connection: object) -> None:
    await fencing.async_fenced_update(connection, "stock", {"id": 7}, lease, {"left": 3})
    await fencing.async_fenced_upsert(connection, "stock", {"id": 7}, lease, {})
    await fencing.async_seal(connection, "stock", {"id": 7}, lease.sequencer)
    await fencing.AsyncRedisGuard(object(), b"mark").seal(lease)
    marks: fencing.Marks = fencing.MemoryMarks()
    assert_type(await marks.raise_to("door", 33), int)


async def async_examples() -> None:
    async with holdfast.AsyncLocks() as locks:
        lock = locks.lock("door")
        async with lock as lease:
            assert_type(lease, holdfast.AsyncLease)
            assert_type(await lease.lost.wait(), bool)
        async with await lock.acquire(timeout=5) as again:
            assert_type(again.token, int)
        assert_type(await lock.try_acquire(), holdfast.AsyncLease | None)
        assert_type(await lock.locked(), bool)
        assert_type(await asyncio.create_task(lock.acquire(timeout=5)), holdfast.AsyncLease)
        async for one in locks.survey("door"):
            assert_type(one, holdfast.Inspection)

        @locks.locked("order:{number}")
        async def ship(number: int) -> str:
            return str(number)

        assert_type(await ship(7), str)

        @locks.locked("order:{number}", if_held="skip", skipped=0)
        async def perhaps(number: int) -> str:
            return str(number)

        assert_type(await perhaps(7), str | int)


async def a_forgotten_await(lock: holdfast.AsyncLock) -> None:
    if lock.try_acquire():  # pyright: ignore[reportGeneralTypeIssues]
        return
