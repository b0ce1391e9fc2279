"""A second loop, and functions of the other flavour, are refused with a hint at the way out."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import Any

import pytest
from refusal import refusal

from lockfast import AsyncLocks, ConfigurationError, Locks

ASKS: dict[str, Callable[[AsyncLocks], Any]] = {
    "acquire": lambda locks: locks.lock("door").acquire(),
    "try_acquire": lambda locks: locks.lock("door").try_acquire(),
    "locked": lambda locks: locks.lock("door").locked(),
    "inspect": lambda locks: locks.inspect("door"),
    "survey": lambda locks: anext(locks.survey()),
    "break_": lambda locks: locks.break_("door"),
    "diagnose": lambda locks: locks.diagnose(),
}


@pytest.mark.parametrize("verb", ASKS)
def test_an_asyncio_client_is_refused_in_a_second_loop(store, verb):
    """The user gets a clear sentence, and no error about a future that belongs to another loop."""
    locks = AsyncLocks(store.url)

    async def use() -> None:
        async with locks.lock("door"):
            pass

    async def ask() -> str:
        with pytest.raises(ConfigurationError) as refused:
            await ASKS[verb](locks)
        return str(refused.value)

    with asyncio.Runner() as first, asyncio.Runner() as second:
        first.run(use())
        told = second.run(ask())
        holders = first.run(locks.inspect("door")).holders
        first.run(locks.aclose())

    assert told == "this AsyncLocks belongs to another event loop; make one per loop"
    assert holders == ()


def test_tasks_that_share_a_sync_lock_are_warned_that_they_are_one_owner(store):
    """Locks are re-entrant per thread, so each task of the thread would get in."""

    async def work() -> None:
        with store.locks.lock("door"):
            await asyncio.sleep(0)

    async def both() -> None:
        await asyncio.gather(work(), work())

    with pytest.warns(RuntimeWarning, match="use lockfast.AsyncLocks") as warned:
        asyncio.run(both())

    assert [one.filename for one in warned] == [__file__]


def test_a_thread_without_a_loop_enters_again_without_a_warning(store):
    with store.locks.lock("door"), store.locks.lock("door") as inner:
        inner.check()


class _Callable:
    async def __call__(self) -> None: ...


async def _coroutine() -> None: ...


async def _async_generator():
    yield


def _generator():
    yield


def _plain() -> None: ...


@pytest.mark.parametrize(
    "function",
    [_coroutine, _async_generator, functools.partial(_coroutine), _Callable(), _generator],
    ids=["async def", "async generator", "partial", "object", "generator"],
)
@pytest.mark.parametrize("how", ["lock", "locked"])
def test_a_sync_lock_does_not_decorate_what_runs_after_the_call(store, function, how):
    """Law 1: the call would return and release the lock before the body has run."""
    decorate = store.locks.lock("door") if how == "lock" else store.locks.locked("door")

    told = refusal(lambda: decorate(function))

    assert "the sync flavour" in told or "generator" in told
    assert store.is_unchanged()


@pytest.mark.parametrize(
    ("function", "block"),
    [
        (_generator, "`with locks.lock(...):` inside it, with a client of lockfast.Locks,"),
        (
            _async_generator,
            "`async with locks.lock(...):` inside it, with a client of lockfast.AsyncLocks,",
        ),
    ],
    ids=["generator", "async generator"],
)
@pytest.mark.parametrize("how", ["lock", "locked"])
@pytest.mark.parametrize("flavour", [Locks, AsyncLocks])
def test_a_generator_is_refused_with_what_to_do_instead(function, block, how, flavour):
    """Neither flavour can decorate a generator, so neither message names the other flavour."""
    told = refusal(lambda: getattr(flavour("memory://"), how)("door")(function))

    assert block in told
    assert "returns all items at once" in told
    assert "decorate it with a lock of" not in told


@pytest.mark.parametrize("how", ["lock", "locked"])
def test_an_asyncio_lock_decorates_nothing_but_an_async_def(store, how):
    """The message names the flavour that can."""
    locks = AsyncLocks(store.url)
    decorate = locks.lock("door") if how == "lock" else locks.locked("door")

    told = refusal(lambda: decorate(_plain))

    assert "the asyncio flavour" in told
    assert "_plain is a plain def" in told
    assert "lockfast.Locks" in told
    assert store.is_unchanged()


def test_an_async_def_is_told_where_to_go(store):
    """The message for this usual mistake names the way out."""
    told = refusal(lambda: store.locks.lock("door")(_coroutine))

    assert "_coroutine is an async def" in told
    assert "decorate it with a lock of lockfast.AsyncLocks" in told
