"""The suite runs on the requested event loop, and reports an error if it cannot."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from other_loops import LOOPS, VARIABLE, on_the_chosen_loop

SHOW = """
import asyncio, other_loops
from lockfast.testing import VirtualTimeLoop

async def show():
    steps = []

    async def step():
        steps.append("eager")

    task = asyncio.create_task(step())
    print(type(asyncio.get_running_loop()).__module__.partition(".")[0], *steps)
    await task

other_loops.on_the_chosen_loop({other_loops.VARIABLE: "CHOSEN"})
asyncio.run(show())
for factory in (asyncio.new_event_loop, VirtualTimeLoop):
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(show())
"""

SHOWN = {
    "uvloop": ["uvloop", "uvloop", "lockfast"],
    "eager": ["asyncio eager", "asyncio eager", "lockfast eager"],
}


@pytest.mark.parametrize("chosen", LOOPS)
def test_every_loop_that_a_test_may_make_is_the_chosen_one(chosen):
    shared = Path(__file__).parents[1] / "shared"

    shown = subprocess.check_output(
        [sys.executable, "-c", SHOW.replace("CHOSEN", chosen)], cwd=shared, text=True
    )

    assert shown.splitlines() == SHOWN[chosen]


def test_a_loop_that_there_is_not_is_refused_with_those_that_there_are():
    with pytest.raises(ValueError, match=r"LOCKFAST_TEST_LOOP=trio: .* one of uvloop"):
        on_the_chosen_loop({VARIABLE: "trio"})
