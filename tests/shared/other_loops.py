"""The same tests on another event loop: `LOCKFAST_TEST_LOOP=uvloop`, or `=eager` from 3.12 on."""

from __future__ import annotations

import asyncio
import functools
import sys
from collections.abc import Mapping

VARIABLE = "LOCKFAST_TEST_LOOP"


def on_the_chosen_loop(environment: Mapping[str, str]) -> None:
    """Use the event loop that the environment names; by default, change nothing."""
    chosen = environment.get(VARIABLE, "")
    if not chosen:
        return
    if chosen not in LOOPS:
        raise ValueError(f"{VARIABLE}={chosen}: on this Python it is one of {', '.join(LOOPS)}")
    LOOPS[chosen]()


def _uvloop() -> None:
    """Make all loops uvloop's, except virtual-time loops, which are our own class."""
    import uvloop  # noqa: PLC0415 - not where only the core is tested

    # Do not use a policy, which Python 3.14 deprecates. The runner looks the function up in
    # `asyncio.events`, and our code in `asyncio`.
    asyncio.new_event_loop = asyncio.events.new_event_loop = uvloop.new_event_loop


def _eager() -> None:
    """Start tasks inside the call that creates them, in virtual time too."""
    set_up = asyncio.BaseEventLoop.__init__

    @functools.wraps(set_up)
    def set_up_with_factory(loop: asyncio.BaseEventLoop) -> None:
        set_up(loop)
        loop.set_task_factory(asyncio.eager_task_factory)

    asyncio.BaseEventLoop.__init__ = set_up_with_factory


LOOPS = {"uvloop": _uvloop}
if sys.version_info >= (3, 12):
    LOOPS["eager"] = _eager
