"""Shielded work completes, whoever cancels it, and the cancellation is not forgotten."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from lockfast.runtime.aio import WakeEvent
from lockfast.runtime.tasks import shield
from lockfast.testing import run_in_virtual_time


def run(main: Any) -> None:
    # In virtual time: a sleep lasts until everything else waits, and no longer.
    run_in_virtual_time(main())


def test_the_result_comes_back() -> None:
    async def work() -> int:
        await asyncio.sleep(0)
        await asyncio.sleep(0.001)
        return 7

    async def main() -> None:
        assert await shield(work()) == 7

    run(main)


def test_an_error_comes_out() -> None:
    async def work() -> None:
        await asyncio.sleep(0.001)
        raise KeyError("mine")

    async def main() -> None:
        with pytest.raises(KeyError):
            await shield(work())

    run(main)


@pytest.mark.parametrize("times", [1, 3])
def test_a_cancelled_caller_finishes_the_work_first(times: int) -> None:
    done: list[str] = []

    async def work(gate: asyncio.Event) -> None:
        await asyncio.sleep(0)
        await gate.wait()
        done.append("work")

    async def main() -> None:
        gate = asyncio.Event()

        async def caller() -> None:
            try:
                await shield(work(gate))
            except asyncio.CancelledError:
                done.append("cancelled")
                raise

        task = asyncio.create_task(caller())
        for _ in range(times):
            await asyncio.sleep(0.001)
            task.cancel()
        await asyncio.sleep(0.001)
        assert done == []
        gate.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()

    run(main)
    assert done == ["work", "cancelled"]


def test_work_that_fails_after_a_cancellation_is_told_in_a_note() -> None:
    async def work(gate: asyncio.Event) -> None:
        await gate.wait()
        raise KeyError("mine")

    async def main() -> None:
        gate = asyncio.Event()
        task = asyncio.ensure_future(shield(work(gate)))
        await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.sleep(0.001)
        gate.set()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        assert "mine" in caught.value.__notes__[0]

    run(main)


def test_a_future_that_is_cancelled_under_the_work_reaches_it() -> None:
    """The shield keeps away the cancellation of the caller, and no other."""

    async def main() -> None:
        future = asyncio.get_running_loop().create_future()
        seen: list[str] = []

        async def work() -> None:
            try:
                await future
            except asyncio.CancelledError:
                seen.append("future cancelled")

        task = asyncio.ensure_future(shield(work()))
        await asyncio.sleep(0.001)
        future.cancel()
        await task
        assert seen == ["future cancelled"]

    run(main)


@pytest.mark.parametrize("cancelled", [False, True])
def test_a_future_that_fails_under_the_work_reaches_it(*, cancelled: bool) -> None:
    async def main() -> None:
        future = asyncio.get_running_loop().create_future()

        async def work() -> str:
            with pytest.raises(KeyError, match="mine"):
                await future
            return "went on"

        async def caller() -> str:
            return await shield(work())

        task = asyncio.create_task(caller())
        await asyncio.sleep(0.001)
        if cancelled:
            task.cancel()
        future.set_exception(KeyError("mine"))
        [answer] = await asyncio.gather(task, return_exceptions=True)
        if cancelled:
            assert isinstance(answer, asyncio.CancelledError)
        else:
            assert answer == "went on"

    run(main)


def test_a_shield_in_a_shield_lets_a_failure_through() -> None:
    async def main() -> None:
        future = asyncio.get_running_loop().create_future()

        async def inner() -> None:
            await future

        async def outer() -> str:
            with pytest.raises(KeyError, match="mine"):
                await shield(inner())
            return "went on"

        task = asyncio.ensure_future(shield(outer()))
        await asyncio.sleep(0.001)
        future.set_exception(KeyError("mine"))

        assert await task == "went on"

    run(main)


def test_a_cancellation_asked_for_while_the_task_ran_is_not_forgotten() -> None:
    """A cancellation from a signal handler strikes at the task's next wait, inside the shield."""

    async def main() -> None:
        async def work() -> None:
            await asyncio.sleep(0.001)

        async def caller() -> None:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await shield(work())

        task = asyncio.create_task(caller())
        with pytest.raises(asyncio.CancelledError):
            await task

    run(main)


def test_the_tasks_of_the_pure_python_asyncio_are_kept_waiting_too() -> None:
    """Debuggers and some loops use the pure-Python tasks, which require the same of a future."""
    done: list[str] = []

    async def main() -> None:
        gate = asyncio.Event()

        async def work() -> None:
            await gate.wait()
            done.append("work")

        async def caller() -> None:
            await shield(work())

        task = asyncio.tasks._PyTask(caller())  # type: ignore[attr-defined]
        await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.sleep(0.001)
        assert done == []
        gate.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(main)
    assert done == ["work"]


def test_a_wait_inside_ends_by_its_own_timer() -> None:
    """`Event.wait` does not rely on cancellation, so it works inside a shield."""

    async def main() -> None:
        async def work() -> bool:
            return await WakeEvent().wait(0.01)

        assert await shield(work()) is False

    run(main)
