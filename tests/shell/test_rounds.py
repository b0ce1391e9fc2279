"""A waiter that is never woken checks the store now and then by itself, in both flavours."""

from __future__ import annotations

import asyncio
import threading

from lockfast.runtime import aio, threads

LONGEST = 0.02
PATIENCE = 20.0


def test_a_task_that_nobody_calls_looks_around() -> None:
    async def wait() -> bool:
        rounds, event = aio.Ticker(LONGEST), aio.WakeEvent()
        return await asyncio.wait_for(event.wait(rounds.timeout_for(event)), PATIENCE)

    assert asyncio.run(wait())


def test_so_do_all_tasks_that_came_at_different_times_and_again() -> None:
    async def wait() -> list[bool]:
        rounds = aio.Ticker(LONGEST)

        async def look(number: int) -> bool:
            event = aio.WakeEvent()
            for _ in range(3):
                await asyncio.sleep(number * LONGEST / 7)
                assert await event.wait(rounds.timeout_for(event))
                event.clear()
            return True

        return await asyncio.wait_for(asyncio.gather(*map(look, range(20))), PATIENCE)

    assert asyncio.run(wait()) == [True] * 20


def test_no_timer_is_left_when_nobody_waits() -> None:
    async def wait() -> None:
        rounds, event = aio.Ticker(LONGEST), aio.WakeEvent()
        await event.wait(rounds.timeout_for(event))
        ended = asyncio.Event()

        def look() -> None:
            if rounds._timer is None:
                ended.set()
            else:
                asyncio.get_running_loop().call_later(LONGEST, look)

        look()
        await asyncio.wait_for(ended.wait(), PATIENCE)

    asyncio.run(wait())


def test_a_thread_that_nobody_calls_looks_around() -> None:
    rounds, event = threads.Ticker(LONGEST), threads.WakeEvent()
    waiting = threading.Thread(target=lambda: event.wait(rounds.timeout_for(event)))
    waiting.start()
    waiting.join(PATIENCE)

    assert not waiting.is_alive()
