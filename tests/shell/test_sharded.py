"""A lock in shards: each caller takes any free shard, and leaves nothing at the others."""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from both_flavours import FLAVOURS, Flavour, number_waiting
from virtual import virtual, virtual_clock

from lockfast import (
    AcquireTimeout,
    AsyncLocks,
    ConfigurationError,
    LeaseLost,
    LocksClosed,
    NotAcquired,
    WouldDeadlock,
)
from lockfast.backends.memory.store import MemoryStore
from lockfast.testing import AsyncFaultyBackend, run_in_virtual_time
from lockfast_challenge.processes import eventually


@pytest.fixture(params=FLAVOURS)
def flavour(request):
    flavour = Flavour(request.param)
    yield flavour
    flavour.close()


@pytest.fixture
def url() -> str:
    """A store that only this test uses."""
    return f"memory://{os.urandom(4).hex()}"


def two() -> tuple[AsyncLocks, AsyncFaultyBackend, AsyncLocks]:
    """Return a client with its backend, and a second client, as a task re-enters its own holds."""
    store = MemoryStore(virtual_clock())
    locks, backend = virtual(store, request_timeout=1.0)
    other, _ = virtual(store)
    return locks, backend, other


def begin_at(sharded, shard):
    """Make the next caller ask this shard first."""
    getattr(sharded, "_inner", sharded)._turns = itertools.count(shard)
    return sharded


def counted_looks(backend: Any) -> Callable[[], int]:
    """Return a function that returns how often all shards have been looked at since this call."""
    looks, inner = Counter[str](), backend.crowds

    async def counted(*args: Any, **options: Any) -> Any:
        looks["crowds"] += 1
        return await inner(*args, **options)

    backend.crowds = counted
    return lambda: looks["crowds"]


def test_each_gets_a_shard_of_its_own_and_is_told_which(flavour, url):
    clients = [flavour.locks(url) for _ in range(4)]

    leases = [one.sharded("stock", shards=4).acquire_any(timeout=20) for one in clients]

    assert sorted(one.shard for one in leases) == [0, 1, 2, 3]
    assert all(one.name == f"stock#{one.shard}" for one in leases)
    assert [one.name for one in clients[0].survey()] == [f"stock#{i}" for i in range(4)]


def test_a_shard_is_the_lock_of_its_name(flavour, url):
    locks, other = flavour.locks(url), flavour.locks(url)
    stock = locks.sharded("stock", shards=2)
    by_name = other.lock("stock#0").acquire()

    lease = stock.acquire_any(timeout=20)

    assert (lease.shard, by_name.name) == (1, stock.names[0])


def test_who_tries_gets_none_when_all_are_held_and_joins_no_line(flavour, url):
    locks, other = flavour.locks(url), flavour.locks(url)
    stock = locks.sharded("stock", shards=3)
    held = [other.lock(name).acquire() for name in stock.names]

    assert stock.try_acquire_any() is None

    assert not any(one.line for one in locks.survey())
    held[1].release()
    assert stock.try_acquire_any().shard == 1


def test_shards_are_taken_in_turn(flavour, url):
    """Otherwise one shard would wear out while the others lie idle."""
    stock = flavour.locks(url).sharded("stock", shards=4)
    shards = Counter()
    for _ in range(20):
        lease = stock.acquire_any(timeout=20)
        shards[lease.shard] += 1
        lease.release()

    assert shards == {0: 5, 1: 5, 2: 5, 3: 5}


def test_a_time_out_names_the_whole_and_leaves_nothing_in_any_line(flavour, url):
    locks, other = flavour.locks(url), flavour.locks(url)
    stock = locks.sharded("stock", shards=2)
    held = [other.lock(name).acquire() for name in stock.names]

    with pytest.raises(AcquireTimeout, match="none of the 2 shards of 'stock' was free") as caught:
        stock.acquire_any(timeout=0.05)

    assert caught.value.name == "stock"
    assert caught.value.holders
    assert not any(one.line for one in other.survey())
    assert len(held) == 2


def test_who_waits_is_woken_by_the_shard_where_it_stands(flavour, url):
    locks, other = flavour.locks(url), flavour.locks(url)
    stock = begin_at(locks.sharded("stock", shards=2), 1)
    held = [other.lock(name).acquire() for name in stock.names]
    waiting = flavour.start(stock.acquire_any)
    eventually(lambda: number_waiting(locks))

    held[1].release()

    assert waiting.result(30).shard == 1
    assert not any(one.line for one in other.survey())


def test_who_waits_hears_of_another_shard_that_gets_free(flavour, url):
    locks, other = flavour.locks(url), flavour.locks(url)
    stock = begin_at(locks.sharded("stock", shards=3), 0)
    held = [other.lock(name).acquire() for name in stock.names]
    waiting = flavour.start(stock.acquire_any)
    eventually(lambda: number_waiting(locks))

    held[2].release()

    assert waiting.result(30).shard == 2
    assert not any(one.line for one in other.survey())


@pytest.mark.parametrize(("shards", "looks"), [(2, [1, 1, 2, 3, 4]), (1, [0] * 5)])
def test_where_all_are_taken_the_next_who_waits_does_not_look_at_once(shards, looks):
    """A look would find nothing and only load the store; and a single shard needs no look."""

    async def main() -> list[int]:
        locks, backend, other = two()
        stock = locks.sharded("stock", shards=shards)
        held = [await other.lock(name).acquire() for name in stock.names]
        looked = counted_looks(backend)
        seen = []
        for timeout in (0.01, 0.01, 0.1):
            with pytest.raises(AcquireTimeout):
                await stock.acquire_any(timeout=timeout)
            seen.append(looked())
        await held[1 % shards].release()
        await (await begin_at(stock, 0).acquire_any()).release()
        seen.append(looked())  # after a while the claim looked, and found a free shard
        await other.lock(stock.names[1 % shards]).acquire()
        with pytest.raises(AcquireTimeout):
            await stock.acquire_any(timeout=0.01)
        return [*seen, looked()]

    assert run_in_virtual_time(main()) == looks


def test_whoever_a_quick_line_has_let_in_does_not_look_at_once_the_next_time():
    async def main() -> list[int]:
        locks, backend, other = two()
        stock = locks.sharded("stock", shards=2)
        held = await other.lock(stock.names[0]).acquire()
        looked = counted_looks(backend)
        seen = []
        for pause in (0.01, 0.01, 0.2, 0.01):
            taken = await other.lock(stock.names[1]).acquire()
            waiting = asyncio.ensure_future(begin_at(stock, 1).acquire_any())
            await asyncio.sleep(pause)
            await taken.release()
            await (await waiting).release()
            seen.append(looked())
        await held.release()
        return seen

    assert run_in_virtual_time(main()) == [1, 1, 3, 3]


def test_an_event_that_is_set_ends_the_wait(flavour, url):
    locks, other = flavour.locks(url), flavour.locks(url)
    stock = locks.sharded("stock", shards=2)
    held = [other.lock(name).acquire() for name in stock.names]
    cancel = threading.Event()
    waiting = flavour.start(stock.acquire_any, cancel=cancel)
    eventually(lambda: number_waiting(locks))

    cancel.set()

    with pytest.raises(NotAcquired, match="cancelled"):
        waiting.result(30)
    assert not any(one.line for one in other.survey())
    assert len(held) == 2


def test_closing_ends_the_wait(flavour, url):
    locks, other = flavour.locks(url), flavour.locks(url)
    stock = locks.sharded("stock", shards=2)
    held = [other.lock(name).acquire() for name in stock.names]
    waiting = flavour.start(stock.acquire_any)
    eventually(lambda: number_waiting(locks))

    (locks.close if flavour.name == "sync" else locks.aclose)()

    with pytest.raises(LocksClosed):
        waiting.result(30)
    assert not any(one.line for one in other.survey())
    assert len(held) == 2


def test_whoever_holds_a_shard_gets_the_same_one_again():
    """As with a lock, a function that holds a shard may call another one that takes a shard."""

    async def main() -> None:
        locks, _ = virtual()
        stock = locks.sharded("stock", shards=4)
        async with stock as outer:
            async with stock as inner, await locks.sharded("stock", shards=4).acquire_any() as more:
                assert inner.shard == outer.shard == more.shard
                assert inner.token == outer.token
            assert outer.is_trusted
        assert not [one async for one in locks.survey()]
        await locks.aclose()

    run_in_virtual_time(main())


def test_one_that_may_not_be_entered_again_says_so():
    async def main() -> None:
        locks, _ = virtual()
        async with locks.sharded("stock", shards=4, reentrant=False) as lease:
            with pytest.raises(WouldDeadlock, match=lease.name):
                await locks.sharded("stock", shards=4, reentrant=False).acquire_any()
        await locks.aclose()

    run_in_virtual_time(main())


def test_a_block_whose_lease_is_lost_is_told_so():
    async def main() -> None:
        locks, _ = virtual()

        async def work() -> None:
            async with locks.sharded("stock", shards=2) as lease:
                await locks.break_(lease.name)
                await asyncio.sleep(60)

        with pytest.raises(LeaseLost):
            await work()
        await locks.aclose()

    run_in_virtual_time(main())


def test_two_shards_that_get_free_at_once_give_one_lease():
    """The second shard is given back, even if the line grants it while the first is being taken."""

    async def main() -> None:
        locks, _, other = two()
        stock = begin_at(locks.sharded("stock", shards=2), 0)
        held = [await other.lock(name).acquire() for name in stock.names]
        waiting = asyncio.ensure_future(stock.acquire_any())
        await asyncio.sleep(0.01)
        for one in held:
            await one.release()

        lease = await waiting

        [left] = [one async for one in locks.survey()]
        assert left.name == lease.name
        assert not left.line
        await locks.aclose()
        await other.aclose()

    run_in_virtual_time(main())


@pytest.mark.parametrize("when", [0.0, 0.02, 0.3, 3.0])
def test_who_is_cancelled_leaves_nothing_behind(when):
    async def main() -> None:
        locks, backend, other = two()
        backend.delay("crowds", 0.01)
        stock = locks.sharded("stock", shards=3)
        held = [await other.lock(name).acquire() for name in stock.names]
        waiting = asyncio.ensure_future(stock.acquire_any())
        await asyncio.sleep(when)

        waiting.cancel()

        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert not any([one.line async for one in locks.survey()])
        assert len(held) == 3
        await locks.aclose()
        await other.aclose()

    run_in_virtual_time(main())


def test_who_is_cancelled_while_it_leaves_its_line_gives_back_what_it_took():
    """The shard is given back even while something keeps the task and its frames alive."""

    async def main() -> None:
        locks, backend, other = two()
        first = await other.lock("stock#0").acquire()
        second = await other.lock("stock#1").acquire()
        sharded = begin_at(locks.sharded("stock", shards=2), 0)
        task = asyncio.ensure_future(sharded.acquire_any())
        await asyncio.sleep(0.5)
        backend.delay("withdraw", 0.9)
        await second.release()
        for _ in range(300):
            if (await other.inspect("stock#1")).holders:
                break
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait([task])

        assert task.cancelled()
        assert not (await other.inspect("stock#1")).holders
        assert not (await other.inspect("stock#0")).line
        await first.release()
        await locks.aclose()
        await other.aclose()

    run_in_virtual_time(main())


def test_a_store_that_does_not_tell_of_the_others_only_delays_that():
    """A claim that cannot see the other shards still has its place in line."""

    async def main() -> None:
        locks, backend, other = two()
        stock = begin_at(locks.sharded("stock", shards=2), 0)
        held = [await other.lock(name).acquire() for name in stock.names]
        backend.lose_reply("crowds", times=3)
        waiting = asyncio.ensure_future(stock.acquire_any())
        await asyncio.sleep(1.0)

        await held[0].release()

        assert (await waiting).shard == 0
        await locks.aclose()
        await other.aclose()

    run_in_virtual_time(main())


def test_the_time_counts_for_all_that_is_asked():
    async def main() -> None:
        locks, backend, other = two()
        stock = locks.sharded("stock", shards=8)
        held = [await other.lock(name).acquire() for name in stock.names]
        backend.delay("crowds", 0.9)
        loop = asyncio.get_running_loop()
        started = loop.time()

        with pytest.raises(AcquireTimeout):
            await stock.acquire_any(timeout=2.0)

        assert loop.time() - started <= 3.0
        assert len(held) == 8
        await locks.aclose()
        await other.aclose()

    run_in_virtual_time(main())


def test_a_line_behind_a_holder_that_hangs_is_left():
    """One shard is held for an hour, while the other shard changes hands all the time."""

    async def main() -> None:
        locks, _, other = two()
        stock = begin_at(locks.sharded("stock", shards=2), 0)
        hanging = await other.lock("stock#0").acquire()

        async def busy() -> None:
            for _ in range(3000):
                async with other.lock("stock#1"):
                    await asyncio.sleep(0.02)

        others = [asyncio.ensure_future(busy()) for _ in range(2)]
        await asyncio.sleep(0.1)

        lease = await stock.acquire_any(timeout=20)

        assert lease.shard == 1
        assert hanging.is_trusted
        assert not (await locks.inspect("stock#0")).line
        for one in others:
            one.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await locks.aclose()
        await other.aclose()

    run_in_virtual_time(main())


def test_who_has_moved_from_line_to_line_is_told_the_whole_time():
    async def main() -> None:
        locks, _, other = two()
        await other.lock("stock#0").acquire()

        async def busy() -> None:
            while True:
                async with other.lock("stock#1"):
                    await asyncio.sleep(0.3)

        moving = [asyncio.ensure_future(busy()) for _ in range(60)]
        await asyncio.sleep(1.0)
        sharded = begin_at(locks.sharded("stock", shards=2), 0)

        with pytest.raises(AcquireTimeout) as caught:
            await sharded.acquire_any(timeout=8.0)

        assert caught.value.waited >= 8.0
        for one in moving:
            one.cancel()
        await asyncio.wait(moving)
        await locks.aclose()
        await other.aclose()

    run_in_virtual_time(main())


def test_while_nothing_changes_the_others_are_looked_at_once_in_a_second():
    async def main() -> None:
        locks, backend, other = two()
        stock = locks.sharded("stock", shards=8)
        held = [await other.lock(name).acquire() for name in stock.names]
        with pytest.raises(AcquireTimeout):
            await stock.acquire_any(timeout=100.0)

        assert backend.calls["crowds"] <= 110
        assert len(held) == 8
        await locks.aclose()
        await other.aclose()

    run_in_virtual_time(main())


def test_a_striped_lock_is_the_lock_of_its_stripe(flavour, url):
    locks = flavour.locks(url)

    lock = locks.striped("user", "bob")

    assert lock.name == "user#18/64"
    assert locks.striped("user", "bob", stripes=8, timeout=5).name == "user#2/8"


@pytest.mark.parametrize("count", [0, -1, 1001, True, 2.0, "8"])
def test_how_many_shards_there_are_is_checked(flavour, url, count):
    with pytest.raises((ConfigurationError, TypeError), match="shards"):
        flavour.locks(url).sharded("stock", shards=count)


@pytest.mark.parametrize("count", [0, 1_000_001, True])
def test_how_many_stripes_there_are_is_checked(flavour, url, count):
    with pytest.raises((ConfigurationError, TypeError), match="stripes"):
        flavour.locks(url).striped("user", 1, stripes=count)


def test_an_explicit_owner_is_refused(flavour, url):
    with pytest.raises(ConfigurationError, match="owner= belongs to lock"):
        flavour.locks(url).sharded("stock", shards=2, owner="saga-42")


def test_a_name_that_leaves_no_room_for_the_shard_is_refused(flavour, url):
    locks = flavour.locks(url)

    with pytest.raises(ConfigurationError, match="512"):
        locks.sharded("x" * 511, shards=2)
    with pytest.raises(ConfigurationError, match="512"):
        locks.striped("x" * 511, 1)
