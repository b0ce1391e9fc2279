"""A forgotten `await` on a result that decides whether to go on is refused, not taken as true."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any
from unittest.mock import AsyncMock

import pytest

import lockfast
from lockfast import AsyncLease, AsyncLock, AsyncLocks

ANSWERS: dict[str, Callable[[AsyncLocks, AsyncLease], Any]] = {
    "acquire": lambda locks, _: locks.lock("a").acquire(timeout=1),
    "try_acquire": lambda locks, _: locks.lock("a").try_acquire(),
    "try_acquire of a semaphore": lambda locks, _: locks.semaphore("s", capacity=2).try_acquire(),
    "try_acquire to read": lambda locks, _: locks.rwlock("r").read().try_acquire(),
    "acquire of all": lambda locks, _: locks.all("a", "b").acquire(),
    "try_acquire of all": lambda locks, _: locks.all("a", "b").try_acquire(),
    "acquire_any": lambda locks, _: locks.sharded("n", shards=2).acquire_any(),
    "try_acquire_any": lambda locks, _: locks.sharded("n", shards=2).try_acquire_any(),
    "locked": lambda locks, _: locks.lock("a").locked(),
    "is_current": lambda locks, lease: locks.is_current(lease.sequencer),
    "break_": lambda locks, _: locks.break_("a"),
    "wait": lambda _, lease: lease.lost.wait(0),
}


@pytest.mark.parametrize("verb", ANSWERS)
def test_an_answer_that_was_not_awaited_has_no_truth_value(verb):
    """`if lock.try_acquire():` would enter without the lock: a plain coroutine is true."""

    async def scene() -> str:
        async with AsyncLocks("memory://") as locks, locks.lock("0") as lease:
            answer = ANSWERS[verb](locks, lease)
            with pytest.raises(TypeError) as refused:
                bool(answer)
            await ANSWERS[verb](locks, lease)
            return str(refused.value)

    told = asyncio.run(scene())

    assert f"{verb.split()[0]}() was used without `await`" in told
    assert f"write `await ...{verb.split()[0]}(...)`" in told


async def _enter(answer: Any) -> None:
    async with answer:
        pass


@pytest.mark.parametrize("use", [_enter, list], ids=["async with", "unpacking"])
def test_what_was_not_awaited_can_be_neither_entered_nor_unpacked(use):
    """The error for `async with lock.acquire():` names the missing await."""

    async def scene() -> None:
        async with AsyncLocks("memory://") as locks:
            used = use(locks.all("a", "b").acquire())
            if used is not None:
                await used

    with pytest.raises(TypeError, match=r"acquire\(\) was used without `await`"):
        asyncio.run(scene())


PUBLIC = [
    getattr(lockfast, one)
    for one in lockfast.__all__
    if one.startswith("Async") and one != "AsyncBackend"  # only our own code calls AsyncBackend
]


@pytest.mark.parametrize("kind", PUBLIC)
def test_whatever_answers_yes_or_no_or_perhaps_nothing_has_to_be_awaited(kind):
    """A new method that returns a bool, or possibly None, must be protected as well."""
    unmarked = [
        name
        for name, method in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_")
        and inspect.iscoroutinefunction(inspect.unwrap(method))
        and str(inspect.signature(method).return_annotation).endswith(("bool", " | None"))
        and method is inspect.unwrap(method)
    ]

    assert unmarked == []


def test_it_is_a_coroutine_in_every_other_respect():
    async def scene() -> list[object]:
        async with AsyncLocks("memory://") as locks:
            lock = locks.lock("a")
            task = asyncio.create_task(lock.try_acquire())
            assert "try_acquire" in repr(task)  # before the coroutine begins, and afterwards
            lease = await task
            assert "try_acquire" in repr(task)
            return [
                isinstance(lease, AsyncLease),
                await asyncio.wait_for(lock.locked(), 60),
                *await asyncio.gather(lock.locked(), locks.lock("b").locked()),
            ]

    assert asyncio.run(scene()) == [True, True, True, False]


def test_a_task_made_of_it_can_be_cancelled():
    async def scene() -> bool:
        url = "memory://cancelled"
        async with AsyncLocks(url) as locks, AsyncLocks(url) as holder, holder.lock("a"):
            task = asyncio.create_task(locks.lock("a").acquire())
            while not (await locks.inspect("a")).line:  # noqa: ASYNC110 - polls the store's view
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            return task.cancelled() and not (await locks.inspect("a")).line

    assert asyncio.run(scene())


def test_a_mock_of_a_lock_can_be_awaited():
    async def scene() -> object:
        return await AsyncMock(spec=AsyncLock).try_acquire()

    assert asyncio.run(scene()) is not None
