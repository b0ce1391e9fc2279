"""One does it for all; and where that one is interrupted, somebody else does."""

from __future__ import annotations

import asyncio

from interrupting import interrupt, places

from holdfast._async.single_flight import AsyncSingleFlight
from holdfast._sync.single_flight import SingleFlight
from holdfast.runtime.clock import Clock
from holdfast.testing import VirtualClock, run_in_virtual_time


def test_those_who_come_meanwhile_wait_for_the_one_who_does_it() -> None:
    async def main() -> None:
        flights: list[str] = []
        single = AsyncSingleFlight(VirtualClock(asyncio.get_running_loop()))  # type: ignore[arg-type]

        async def work() -> None:
            flights.append("flown")
            await asyncio.sleep(1.0)

        done = await asyncio.gather(*(single.fly(work, deadline=9e9) for _ in range(5)))

        assert flights == ["flown"]
        assert done.count(True) == 1
        assert await single.fly(work, deadline=9e9)

    run_in_virtual_time(main())


def test_an_interrupt_at_any_place_leaves_the_work_to_the_next() -> None:
    clock = Clock()
    single = SingleFlight(clock)

    def fly() -> None:
        single.fly(lambda: None, deadline=clock.now() + 1.0)

    for place in range(places(fly) + 1):
        interrupt(fly, at=place)
        assert single.fly(lambda: None, deadline=clock.now() + 1.0)
