"""Several calls at once, in both flavours: nothing is lost, and nothing goes on afterwards."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pytest
from interrupting import interrupt, places

from lockfast.runtime import aio, threads

PATIENCE = 10.0
"""Timeout that only a hang exceeds, in seconds."""


def test_each_call_is_made_while_the_others_are():
    together = threading.Barrier(3)

    found = threads.gather([lambda one=one: (together.wait(PATIENCE), one)[1] for one in "abc"])

    assert found == ["a", "b", "c"]


def test_each_call_is_made_while_the_others_are_in_asyncio():
    async def main() -> list[str]:
        together = asyncio.Semaphore(0)

        async def call(one: str) -> str:
            for _ in range(2):
                together.release()
            for _ in range(2):
                await together.acquire()
            return one

        async with asyncio.timeout(PATIENCE):
            return await aio.gather([partial(call, one) for one in "abc"])

    assert asyncio.run(main()) == ["a", "b", "c"]


def test_no_call_is_no_answer():
    async def main() -> list[object]:
        return await aio.gather([])

    assert threads.gather([]) == []
    assert asyncio.run(main()) == []


def test_an_error_of_one_is_raised_once_all_have_ended():
    ended = []

    def fail() -> None:
        raise LookupError("no")

    with pytest.raises(LookupError):
        threads.gather([fail, partial(ended.append, 1), partial(ended.append, 2)])

    assert sorted(ended) == [1, 2]


def test_an_error_of_one_is_raised_once_all_have_ended_in_asyncio():
    ended = []

    async def fail() -> None:
        raise LookupError("no")

    async def end(one: int) -> None:
        await asyncio.sleep(0.01)
        ended.append(one)

    with pytest.raises(LookupError):
        asyncio.run(aio.gather([fail, partial(end, 1), partial(end, 2)]))

    assert sorted(ended) == [1, 2]


def test_of_several_errors_none_is_lost():
    def fail(one: str) -> None:
        raise LookupError(one)

    with pytest.raises(LookupError, match="first") as caught:
        threads.gather([partial(fail, "first"), partial(fail, "second")])

    assert any("second" in one for one in caught.value.__notes__)


def test_a_cancellation_waits_until_all_have_ended():
    ended = []

    async def main() -> None:
        begun = asyncio.Semaphore(0)

        async def call(one: int) -> None:
            begun.release()
            try:
                await asyncio.sleep(PATIENCE)
            finally:
                for _ in range(one):
                    await asyncio.sleep(0)
                ended.append(one)

        gathering = asyncio.create_task(aio.gather([partial(call, one) for one in (1, 5, 9)]))
        for _ in range(3):
            await begun.acquire()
        gathering.cancel()
        await asyncio.wait([gathering])

        assert gathering.cancelled()
        assert sorted(ended) == [1, 5, 9]

    asyncio.run(main())


def test_where_no_thread_is_to_be_had_they_are_made_one_by_one(monkeypatch):
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        found = threads.gather([lambda one=one: one for one in range(3)])

    assert found == [0, 1, 2]


def test_an_exit_in_a_thread_is_told_to_the_one_who_gathers():
    def leave() -> None:
        raise SystemExit

    with pytest.raises(SystemExit):
        threads.gather([lambda: None, leave])


def test_an_interrupt_begins_nothing_more_where_no_thread_is_to_be_had(monkeypatch):
    made = []

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(KeyboardInterrupt):
        threads.gather([interrupted, partial(made.append, 1)])

    assert made == []


def test_after_an_interrupt_at_any_place_no_call_goes_on():
    """A call that went on would do what the caller is about to undo."""
    begun, ended = [], []

    def call(one: int) -> None:
        begun.append(one)
        time.sleep(0.002)  # long enough to be noticed
        ended.append(one)

    def gather() -> None:
        threads.gather([lambda: None, partial(call, 1), partial(call, 2)])

    for place in range(places(gather) + 1):
        begun.clear()
        ended.clear()
        where = interrupt(gather, at=place)
        assert sorted(begun) == sorted(ended), where


class Owned:
    """An object that only the caller's frames own."""


def test_what_the_caller_owns_is_dropped_when_an_interrupt_or_an_error_has_got_through(
    no_collector,
):
    """Dropping the object undoes what the caller began; the collector may run hours later."""
    owned: list[weakref.ref[Owned]] = []

    def fail() -> None:
        raise LookupError

    def gather(*calls: Callable[[], None]) -> None:
        mine = Owned()
        owned.append(weakref.ref(mine))
        threads.gather([*calls, lambda: None])

    def call() -> None:
        gather(lambda: None)

    for place in range(places(call) + 1):
        interrupt(call, at=place)
    for calls in ([fail, fail], [lambda: None, fail]):
        with suppress(LookupError):
            gather(*calls)

    assert [one for one in owned if one() is not None] == []


@pytest.fixture
def no_collector():
    gc.disable()
    yield
    gc.enable()
