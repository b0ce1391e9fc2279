"""A cycle of waits within one client: the call that would close it fails at once, and names it."""

from __future__ import annotations

import asyncio
import copy
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from both_flavours import number_waiting
from virtual import virtual

from lockfast import AcquireTimeout, Locks, WouldDeadlock
from lockfast.client._async.hold import AsyncHoldRegistry
from lockfast.testing import run_in_virtual_time
from lockfast_challenge.processes import eventually


@pytest.fixture
def locks():
    with Locks(f"memory://{os.urandom(4).hex()}") as locks:
        yield locks


def test_two_threads_that_take_two_locks_in_opposite_order(locks):
    is_held = threading.Event()

    def first() -> str:
        with locks.lock("x"):
            is_held.wait(60)
            with locks.lock("y"):
                return "both"

    with ThreadPoolExecutor(1, thread_name_prefix="first") as pool, locks.lock("y") as lease:
        waiting = pool.submit(first)
        is_held.set()
        eventually(lambda: number_waiting(locks))

        with pytest.raises(WouldDeadlock) as caught:
            locks.lock("x").acquire()

        assert caught.value.cycle == ("x", "y")
        assert "MainThread waits for 'x', which first_0 holds" in str(caught.value)
        assert "first_0 waits for 'y', which MainThread holds" in str(caught.value)
        assert copy.copy(caught.value).cycle == ("x", "y")
        assert not locks.inspect("x").line
        lease.release()
        assert waiting.result(60) == "both"


def met(first, second, *, timeout=None):
    """Make two tasks each hold one lock and then wait for the other lock; return both outcomes."""

    async def main() -> list[object]:
        locks, _ = virtual()

        async def hold_and_wait(outer, inner, pause) -> str:
            async with outer(locks):
                await asyncio.sleep(pause)
                lease = await inner(locks).acquire(timeout=timeout)
                await lease.release()
                return "both"

        tasks = [
            asyncio.ensure_future(hold_and_wait(*first, 1.0)),
            asyncio.ensure_future(hold_and_wait(*second, 2.0)),
        ]
        outcomes = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 600)
        assert not [one async for one in locks.survey()]
        await locks.aclose()
        return outcomes

    return run_in_virtual_time(main())


def lock(name, owner=None):
    return lambda locks: locks.lock(name, owner=owner)


def test_two_tasks():
    one, other = met((lock("x"), lock("y")), (lock("y"), lock("x")))

    assert one == "both"
    assert isinstance(other, WouldDeadlock)


def test_a_wait_with_a_timeout_is_a_wait():
    one, other = met((lock("x"), lock("y")), (lock("y"), lock("x")), timeout=30)

    assert (one, type(other)) == ("both", WouldDeadlock)


def test_who_waits_for_a_moment_only_is_left_alone():
    """Short waits are no deadlock: programs that start over after a timeout wait like this."""
    one, other = met((lock("x"), lock("y")), (lock("y"), lock("x")), timeout=0.9)

    assert WouldDeadlock not in (type(one), type(other))


def test_explicit_owners():
    one, other = met(
        (lock("x", owner="a"), lock("y", owner="a")), (lock("y", owner="b"), lock("x", owner="b"))
    )

    assert (one, type(other)) == ("both", WouldDeadlock)


def test_a_semaphore_of_one():
    def seat(locks):
        return locks.semaphore("s", capacity=1)

    one, other = met((lock("x"), seat), (seat, lock("x")))

    assert (one, type(other)) == ("both", WouldDeadlock)


def test_a_writer_that_waits_for_a_reader():
    def read(locks):
        return locks.rwlock("x").read()

    def write(locks):
        return locks.rwlock("x").write()

    one, other = met((read, lock("y")), (lock("y"), write))

    assert (one, type(other)) == ("both", WouldDeadlock)


def test_who_holds_the_only_permit_and_asks_for_another():
    async def main() -> None:
        locks, _ = virtual()
        seat = locks.semaphore("s", capacity=1)
        async with seat:
            with pytest.raises(WouldDeadlock):
                await seat.acquire()
        await locks.aclose()

    run_in_virtual_time(main())


def test_several_names_of_which_one_is_taken():
    """A task that has the first name of `all()` keeps it while it waits for the second."""

    async def main() -> None:
        locks, _ = virtual()

        async def take_both() -> str:
            await asyncio.sleep(1.0)
            async with locks.all("a", "b"):
                return "both"

        async def take_the_second_and_then_the_first() -> None:
            async with locks.lock("b"):
                await asyncio.sleep(2.0)
                with pytest.raises(WouldDeadlock) as caught:
                    await locks.lock("a").acquire()
            assert caught.value.cycle == ("a", "b")

        tasks = [take_both(), take_the_second_and_then_the_first()]
        assert await asyncio.wait_for(asyncio.gather(*tasks), 60) == ["both", None]
        await locks.aclose()

    run_in_virtual_time(main())


def test_several_names_that_all_are_taken_may_be_released_by_anybody():
    async def main() -> None:
        locks, _ = virtual()
        taken = []

        async def take_two_and_wait() -> None:
            taken.extend(await locks.all("a", "b").acquire())
            await asyncio.sleep(1.0)
            await (await locks.lock("c").acquire()).release()

        async def wait_for_one() -> None:
            async with locks.lock("c"):
                await asyncio.sleep(2.0)
                await (await locks.lock("a").acquire()).release()

        async def release() -> None:
            await asyncio.sleep(3.0)
            for lease in taken:
                await lease.release()

        tasks = [take_two_and_wait(), wait_for_one(), release()]
        await asyncio.wait_for(asyncio.gather(*tasks), 60)
        await locks.aclose()

    run_in_virtual_time(main())


def test_a_semaphore_with_a_seat_that_gets_free_is_no_cycle():
    """One holder of the semaphore works on, and then releases its seat."""

    async def main() -> None:
        locks, _ = virtual()
        seats = locks.semaphore("s", capacity=2)

        async def sit(seconds: float) -> None:
            async with seats:
                await asyncio.sleep(seconds)

        async def hold_and_wait(outer, inner, pause) -> None:
            async with outer:
                await asyncio.sleep(pause)
                async with inner:
                    pass

        await asyncio.gather(
            sit(5.0),
            hold_and_wait(seats, locks.lock("x"), 1.0),
            hold_and_wait(locks.lock("x"), seats, 2.0),
        )
        await locks.aclose()

    run_in_virtual_time(main())


def test_a_lease_that_somebody_else_releases_is_no_cycle():
    """The holder waits, but another task has the lease and may release it."""

    async def main() -> None:
        locks, _ = virtual()
        handed = []

        async def other() -> None:
            await asyncio.sleep(0.5)
            async with locks.lock("y"), locks.lock("x"):
                pass

        async def release() -> None:
            await asyncio.sleep(3.0)
            await handed[0].release()

        tasks = [asyncio.ensure_future(one()) for one in (other, release)]
        handed.append(await locks.lock("x").acquire())
        await asyncio.sleep(1.0)
        async with locks.lock("y"):
            pass
        await asyncio.gather(*tasks)
        await locks.aclose()

    run_in_virtual_time(main())


def test_a_lease_that_ends_by_itself_is_no_cycle():
    def ending(locks):
        return locks.lock("x", renew=False, ttl=10.0)

    one, other = met((ending, lock("y")), (lock("y"), lock("x")))

    assert WouldDeadlock not in (type(one), type(other))


def test_who_only_tries_closes_no_cycle():
    one, other = met((lock("x"), lock("y")), (lock("y"), lock("x")), timeout=0)

    assert {type(one), type(other)} <= {str, AcquireTimeout}


def test_a_wait_that_has_ended_counts_no_more():
    """A task that gave up waiting keeps what it holds, and can still release it."""

    async def main() -> None:
        locks, _ = virtual()

        async def give_up() -> None:
            async with locks.lock("x"):
                with pytest.raises(AcquireTimeout):
                    await locks.lock("y").acquire(timeout=2.0)
                await asyncio.sleep(5.0)

        giving_up = asyncio.ensure_future(give_up())
        async with locks.lock("y"):
            await asyncio.sleep(3.0)
            async with locks.lock("x"):
                pass
        await giving_up
        await locks.aclose()

    run_in_virtual_time(main())


def test_a_wait_that_ends_within_a_second_is_no_link_however_long_it_has_lasted():
    async def main() -> None:
        locks, _ = virtual()

        async def give_up() -> None:
            async with locks.lock("x"):
                with pytest.raises(AcquireTimeout):
                    await locks.lock("y").acquire(timeout=30.0)

        giving_up = asyncio.ensure_future(give_up())
        async with locks.lock("y"):
            await asyncio.sleep(29.5)
            async with locks.lock("x"):
                pass
        await giving_up
        await locks.aclose()

    run_in_virtual_time(main())


@pytest.mark.parametrize("later", [0.0, 0.5], ids=["at_once", "while_it_leaves_the_line"])
def test_who_was_cancelled_closes_no_cycle(later):
    """A cancelled task releases what it holds as soon as it has left the line."""

    async def main() -> None:
        locks, backend = virtual()
        backend.delay("withdraw", 1.0)

        async def hold_and_wait() -> None:
            async with locks.lock("x"), locks.lock("y"):
                pass

        waiting = asyncio.ensure_future(hold_and_wait())
        async with locks.lock("y"):
            await asyncio.sleep(1.0)
            waiting.cancel()
            await asyncio.sleep(later)
            async with locks.lock("x"):
                assert waiting.cancelled()
        await locks.aclose()

    run_in_virtual_time(main())


def test_a_crowd_that_nobody_in_it_blocks_is_not_looked_through(monkeypatch):
    """When each waiter looked at all others, the loop was so busy that leases were lost."""
    looked: list[str] = []
    waits_at = AsyncHoldRegistry.waits_at

    def counted(self: AsyncHoldRegistry, name: str, **options: object) -> object:
        looked.append(name)
        return waits_at(self, name, **options)

    monkeypatch.setattr(AsyncHoldRegistry, "waits_at", counted)

    async def main() -> int:
        locks, _ = virtual()
        served = 0

        async def one() -> None:
            nonlocal served
            async with locks.semaphore("pool", capacity=3):
                await asyncio.sleep(0.01)
                served += 1

        await asyncio.gather(*(one() for _ in range(200)))
        await locks.aclose()
        return served

    assert run_in_virtual_time(main()) == 200
    assert looked == []
