"""One caller does the work for all; if it is interrupted, another caller does the work."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from interrupting import interrupt, places

from lockfast import BackendUnavailable, ConfigurationError
from lockfast.backends._async.single_flight import AsyncSingleFlight
from lockfast.backends._sync.single_flight import SingleFlight
from lockfast.runtime.clock import Clock
from lockfast.testing import VirtualClock, run_in_virtual_time
from lockfast_challenge.processes import eventually

NEVER = 9e9
PATIENCE = 10.0
"""Timeout that only a hang exceeds, in seconds."""


def single_flight() -> AsyncSingleFlight[str]:
    return AsyncSingleFlight(VirtualClock(asyncio.get_running_loop()))  # type: ignore[arg-type]


def test_those_who_come_meanwhile_wait_for_the_one_who_does_it() -> None:
    async def main() -> None:
        flights: list[str] = []
        single = single_flight()

        async def work() -> str:
            flights.append("flown")
            await asyncio.sleep(1.0)
            return "seen"

        done = await asyncio.gather(*(single.run_shared(work, deadline=NEVER) for _ in range(5)))

        assert flights == ["flown"]
        assert [one.was_ours for one in done].count(True) == 1
        assert [one.result() for one in done] == ["seen"] * 5
        assert (await single.run_shared(work, deadline=NEVER)).was_ours

    run_in_virtual_time(main())


def test_what_it_raises_is_told_to_all_who_wait() -> None:
    """Each waiter gets its own error, as an error raised in many places keeps all their frames."""

    async def main() -> None:
        single = single_flight()

        async def work() -> str:
            await asyncio.sleep(1.0)
            raise BackendUnavailable("the store is away")

        done = await asyncio.gather(*(single.run_shared(work, deadline=NEVER) for _ in range(3)))

        errors = []
        for one in done:
            with pytest.raises(BackendUnavailable, match="the store is away") as caught:
                one.result()
            errors.append(caught.value)
        assert len({id(one) for one in errors}) == 3

    run_in_virtual_time(main())


def test_a_failure_of_a_run_that_began_earlier_is_not_passed_on() -> None:
    """The run may have had less time, and the server may have recovered since."""

    async def main() -> None:
        flights: list[str] = []
        single = single_flight()

        async def work() -> str:
            flights.append("flown")
            await asyncio.sleep(1.0)
            if len(flights) == 1:
                raise BackendUnavailable("the store is away")
            return "seen"

        first = asyncio.create_task(single.run_shared(work, deadline=NEVER))
        await asyncio.sleep(0.5)
        later = [asyncio.create_task(single.run_shared(work, deadline=NEVER)) for _ in range(3)]

        assert (await first).has_failed
        assert [(await one).result() for one in later] == ["seen"] * 3
        assert len(flights) == 2

    run_in_virtual_time(main())


@pytest.mark.parametrize("leaves_at", [0.7, 3.0])
def test_a_failure_is_passed_on_if_the_time_is_up_or_waiting_does_not_cure_it(
    leaves_at: float,
) -> None:
    async def main() -> None:
        flights: list[str] = []
        single, now = single_flight(), asyncio.get_running_loop().time

        async def work() -> str:
            flights.append("flown")
            await asyncio.sleep(1.0)
            raise ConfigurationError("a wrong password")

        first = asyncio.create_task(single.run_shared(work, deadline=NEVER))
        await asyncio.sleep(0.5)
        later = await single.run_shared(work, deadline=now() + leaves_at - 0.5)

        assert later.has_failed == (leaves_at > 1.0)
        assert (await first).has_failed
        assert len(flights) == 1

    run_in_virtual_time(main())


@pytest.mark.parametrize("which", [0, 1])
def test_whoever_asks_may_be_cancelled_and_the_others_get_it(which: int) -> None:
    async def main() -> None:
        flights: list[str] = []
        single = single_flight()

        async def work() -> str:
            flights.append("flown")
            await asyncio.sleep(1.0)
            return "seen"

        asking = [asyncio.create_task(single.run_shared(work, deadline=NEVER)) for _ in range(3)]
        await asyncio.sleep(0.5)
        asking[which].cancel()
        done = await asyncio.gather(*asking, return_exceptions=True)

        found = [one.result() for one in done if not isinstance(one, BaseException)]
        assert found == ["seen"] * 2
        assert flights == ["flown"]

    run_in_virtual_time(main())


def test_one_who_has_less_time_leaves_earlier() -> None:
    async def main() -> None:
        single, now = single_flight(), asyncio.get_running_loop().time

        async def work() -> str:
            await asyncio.sleep(5.0)
            return "seen"

        patient = asyncio.create_task(single.run_shared(work, deadline=NEVER))
        hurried = await single.run_shared(work, deadline=now() + 1.0)

        assert not hurried.is_known
        assert not patient.done()
        assert (await patient).result() == "seen"

    run_in_virtual_time(main())


@pytest.mark.parametrize("turns", [1, 5])
def test_where_somebody_cancels_the_work_itself_it_is_done_again(turns: int) -> None:
    """A program that cancels all tasks when it shuts down may still have a lease to release."""

    async def main() -> None:
        flights: list[str] = []
        single = single_flight()

        async def work() -> str:
            flights.append("flown")
            await asyncio.sleep(1.0)
            return "seen"

        asking = asyncio.create_task(single.run_shared(work, deadline=NEVER))
        for _ in range(turns):  # after one turn the task exists, but has not taken a step
            await asyncio.sleep(0)
        single._flight.task.cancel()

        assert (await asking).result() == "seen"
        assert flights == ["flown"] * (1 if turns == 1 else 2)

    run_in_virtual_time(main())


def test_who_waits_for_what_is_ended_is_told_so_and_not_cancelled() -> None:
    async def main() -> None:
        single = single_flight()

        async def work() -> str:
            await asyncio.sleep(5.0)
            return "seen"

        asking = asyncio.create_task(single.run_shared(work, deadline=NEVER))
        await asyncio.sleep(1.0)
        await single.end()
        outcome = await asking

        assert outcome.is_stopped
        assert not outcome.is_known

    run_in_virtual_time(main())


def test_an_interrupt_at_any_place_leaves_the_work_to_the_next() -> None:
    clock = Clock()
    single = SingleFlight[None](clock)

    def run_shared() -> None:
        single.run_shared(lambda: None, deadline=clock.now() + 1.0)

    for place in range(places(run_shared) + 1):
        interrupt(run_shared, at=place)
        outcome = single.run_shared(lambda: None, deadline=clock.now() + 1.0)
        assert outcome.was_ours
        assert outcome.is_known


def test_those_who_wait_for_one_that_is_interrupted_do_it_themselves() -> None:
    """The waiters do not sleep until their own deadlines."""
    clock, flights = Clock(), []
    single = SingleFlight[str](clock)
    has_begun, others_wait = threading.Event(), threading.Event()

    def interrupted() -> str:
        has_begun.set()
        assert others_wait.wait(PATIENCE)
        raise KeyboardInterrupt

    def work() -> str:
        flights.append("flown")
        return "seen"

    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(single.run_shared, interrupted, deadline=NEVER)
        assert has_begun.wait(PATIENCE)
        others = [pool.submit(single.run_shared, work, deadline=NEVER) for _ in range(2)]
        eventually(lambda: len(single._flight.ended._gates) == 2)
        others_wait.set()

        assert [one.result(PATIENCE).result() for one in others] == ["seen"] * 2
        with pytest.raises(KeyboardInterrupt):
            first.result(PATIENCE)
    assert flights
