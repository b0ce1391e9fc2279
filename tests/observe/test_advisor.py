"""Three workloads, and the advice about them; in virtual time, and in both flavours."""

from __future__ import annotations

import asyncio
import os
import random

import pytest
from both_flavours import FLAVOURS, Flavour
from virtual import virtual

from lockfast import AcquireTimeout, AsyncLocks, ConfigurationError, LeaseLost
from lockfast.backends.memory.store import MemoryStore
from lockfast.observe import Advice, Advisor
from lockfast.observe.advice import AdviceKind
from lockfast.testing import run_in_virtual_time


async def worked(locks: AsyncLocks, name: str, hold: float, **options: object) -> None:
    """Hold a lock for this long, and ignore a loss."""
    lease = await locks.lock(name, **options).acquire()
    await asyncio.sleep(hold)
    try:
        await lease.release()
    except LeaseLost:
        return


def advice_on(work) -> dict[AdviceKind, Advice]:
    """Return the advice about some work, which is called with a client."""

    async def main() -> tuple[Advice, ...]:
        advisor = Advisor()
        locks, _ = virtual(on_event=[advisor])
        await work(locks)
        await locks.aclose()  # delivers all pending events
        return locks.advice()

    return {one.kind: one for one in run_in_virtual_time(main())}


def test_short_holds_with_a_long_ttl() -> None:
    chance = random.Random(1)  # noqa: S311 - a test must be repeatable

    async def work(locks: AsyncLocks) -> None:
        for number in range(200):
            await worked(locks, f"order:{number}", chance.uniform(0.01, 0.05), ttl=3600.0)

    found = advice_on(work)

    assert set(found) == {AdviceKind.TTL_LONG}
    said = found[AdviceKind.TTL_LONG]
    assert (said.pattern, said.level, said.ttl) == ("order:*", "warning", 6.0)
    assert said.figures.holds.count == 200
    assert 0.025 < said.figures.holds.mean < 0.035
    assert said.message.startswith("ttl=3600 is longer than recovery needs")
    assert "200 holds, 29 ms on average" in said.message


def test_holds_beyond_the_ttl_without_renewal() -> None:
    async def work(locks: AsyncLocks) -> None:
        for number in range(100):
            hold = 3.0 if number % 5 == 0 else 0.5
            await worked(locks, f"rotate/{number}", hold, ttl=2.0, renew=False)

    found = advice_on(work)

    assert set(found) == {AdviceKind.HOLD_EXCEEDS}
    said = found[AdviceKind.HOLD_EXCEEDS]
    assert (said.pattern, said.level) == ("rotate/*", "warning")
    assert said.message.startswith("20% of holds (20 of 100) went on beyond ttl=2")
    assert "80 holds, 500 ms on average" in said.message
    assert said.figures.losses == (("expired", 20),)


def test_a_hot_name() -> None:
    async def work(locks: AsyncLocks) -> None:
        async def sell(seller: int) -> None:
            for sale in range(20):
                await worked(locks, f"cart:{seller}-{sale}", 0.001, ttl=10.0)
                await worked(locks, "stock", 0.01, ttl=10.0)

        await asyncio.gather(*(sell(number) for number in range(32)))

    found = advice_on(work)

    said = found[AdviceKind.SHARD]
    assert (said.pattern, said.level, said.shards) == ("stock", "warning", 32)
    assert said.figures.busiest is not None
    assert said.figures.busiest.acquired == 640
    assert 25 < said.figures.busiest.holds_ahead < 32
    assert "holds ahead of each" in said.message
    assert AdviceKind.FINE in found  # the advice about the carts


def test_a_renewed_lease_is_judged_by_its_renewals() -> None:
    async def work(locks: AsyncLocks) -> None:
        await asyncio.gather(
            *(worked(locks, f"import:{number}", 120.0, ttl=60.0) for number in range(40))
        )

    found = advice_on(work)

    said = found[AdviceKind.TTL_LONG]
    assert said.ttl == 6.0
    assert said.figures.renewals >= 200
    assert said.figures.latest_renewal is not None
    assert said.figures.latest_renewal < 1.0


def test_a_store_that_was_away_asks_for_what_rides_it_out() -> None:
    """Leases of 30 s outlived 15 s without the store: the advisor must not call that too long."""

    async def main() -> tuple[Advice, ...]:
        locks, backend = virtual(on_event=Advisor())
        leases = [await locks.lock(f"import:{n}", ttl=30.0).acquire() for n in range(40)]
        await asyncio.sleep(12)
        backend.go_away()
        await asyncio.sleep(15)
        backend.come_back()
        await asyncio.sleep(30)
        for lease in leases:
            await lease.release()
        await locks.aclose()
        return locks.advice()

    [said] = run_in_virtual_time(main())

    assert said.kind is AdviceKind.TTL_SHORT
    assert said.level == "note"
    assert "40 times one was at risk" in said.message


def test_memory_does_not_grow_with_names_and_claims() -> None:
    async def work(locks: AsyncLocks) -> None:
        for number in range(300):
            await worked(locks, f"{'abcdefghijklmnopqrstuvwxyz'[number % 26]}x{number // 26}", 0.1)
            word = "".join(chr(ord("g") + int(digit)) for digit in str(number))
            await worked(locks, f"user:{word}", 0.1)

    async def main() -> Advisor:
        advisor = Advisor()
        locks, _ = virtual(on_event=advisor)
        await work(locks)
        await locks.aclose()
        return advisor

    advisor = run_in_virtual_time(main())

    assert len(advisor.figures()) == 200
    assert advisor.left_out == 300 + 26 - 200
    assert not advisor._summary._held
    assert not advisor._summary._waiting


def test_one_advisor_hears_several_clients() -> None:
    async def main() -> Advisor:
        advisor = Advisor()
        store = None
        for _ in range(2):
            locks, backend = virtual(store, on_event=advisor)
            store = store or MemoryStore(backend._clock)
            for number in range(20):
                await worked(locks, f"order:{number}", 0.01)
            await locks.aclose()
        return advisor

    [figures] = run_in_virtual_time(main()).figures()

    assert figures.holds.count == 40


def test_what_it_is_called_with_counts_as_what_it_takes_of_a_client() -> None:
    async def main() -> tuple[Advisor, Advisor]:
        given, called = Advisor(), Advisor()
        locks, _ = virtual(on_event=[given, called.__call__])
        holding = asyncio.create_task(worked(locks, "order:1", 50.0))
        await asyncio.sleep(0.1)
        with pytest.raises(AcquireTimeout):
            await locks.lock("order:1").acquire(timeout=0.5)
        waiting = asyncio.create_task(worked(locks, "order:1", 0.2))
        await worked(locks, "order:2", 40.0, ttl=30.0, renew=False)
        await asyncio.gather(holding, waiting)
        async with locks.semaphore("seats", capacity=3):
            await asyncio.sleep(25.0)
        await locks.aclose()
        return given, called

    given, called = run_in_virtual_time(main())

    assert given.figures() == called.figures()
    assert {one.kind for one in given.figures()} == {"lock", "semaphore"}


@pytest.fixture(params=FLAVOURS)
def flavour(request):
    flavour = Flavour(request.param)
    yield flavour
    flavour.close()


def test_both_flavours_tell_on_a_real_store(flavour, tmp_path, eventually) -> None:
    locks = flavour.locks(f"sqlite://{tmp_path}/locks.db", on_event=Advisor(), ttl=600.0)
    for number in range(40):
        locks.lock(f"order:{number}").acquire().release()

    eventually(lambda: locks.advice() and locks.advice()[0].figures.holds.count == 40)
    [said] = locks.advice()

    assert (said.kind, said.ttl, said.figures.ttl) == (AdviceKind.TTL_LONG, 6.0, 600.0)


def test_without_an_advisor_nothing_is_said_and_how_to_get_one(flavour) -> None:
    locks = flavour.locks("memory://", on_event=[print])

    with pytest.raises(ConfigurationError, match=r"on_event=lockfast\.observe\.Advisor\(\)"):
        locks.advice()


def test_a_forked_child_counts_anew() -> None:
    advisor = Advisor()
    advisor._summary.left_out = 7
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writing, b"%d" % advisor.left_out)
        os._exit(0)
    os.waitpid(pid, 0)

    assert os.read(reading, 9) == b"0"
    assert advisor.left_out == 7
    os.close(reading)
    os.close(writing)
