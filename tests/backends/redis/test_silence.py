"""When the shared connection of the asyncio flavour is given up, and when one request alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from lockfast import OutcomeUnknown
from lockfast.backends.redis.connection.aio import Link, Wire
from lockfast.backends.redis.resp import packed
from lockfast.backends.wires.aio import SILENCE
from lockfast.testing import VirtualClock, run_in_virtual_time

SHORT, LONG = SILENCE / 10, SILENCE * 10
PING, PONG = packed(b"PING"), b"+PONG\r\n"


class Far:
    """A transport to a server that answers each request after a round trip, unless cut off."""

    def __init__(self, link: Link, round_trip: float) -> None:
        self.link = link
        self.round_trip = round_trip
        self.is_cut = False
        self.is_aborted = False
        self.written: list[bytes] = []

    def set_protocol(self, _: object) -> None:
        """Nothing is read by anybody else."""

    def write(self, data: bytes) -> None:
        self.written.append(data)
        answer = PONG * data.count(PING)
        if answer and not self.is_cut:
            asyncio.get_running_loop().call_later(self.round_trip, self.link.data_received, answer)

    def abort(self) -> None:
        self.is_aborted = True


def far(test: Callable[[Link, Far], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Run a test in virtual time, on a link whose round trip is longer than a short deadline."""

    async def main() -> None:
        link = Link(where="there")
        there = Far(link, SILENCE / 2)
        link.take_over(there, None)  # type: ignore[arg-type]
        await test(link, there)

    def run() -> None:
        run_in_virtual_time(main())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


def ask(link: Link, *, within: float) -> asyncio.Future[Any]:
    return link.send(PING, deadline=asyncio.get_running_loop().time() + within)


@far
async def test_a_deadline_shorter_than_a_round_trip_fails_alone(link: Link, there: Far) -> None:
    """Those who have the time get their answers, on the same connection."""
    hurried, patient = ask(link, within=SHORT), ask(link, within=LONG)

    with pytest.raises(OutcomeUnknown):
        await hurried

    assert await patient == b"PONG"
    assert await ask(link, within=LONG) == b"PONG"
    assert link.is_open


@far
async def test_a_link_that_is_cut_is_found_by_one_hurried_request(link: Link, there: Far) -> None:
    """As soon as it was silent for long enough, though nobody asks again."""
    there.is_cut = True
    asked_at = asyncio.get_running_loop().time()
    with pytest.raises(OutcomeUnknown):
        await ask(link, within=SHORT)
    was_open = link.is_open

    await link.lost

    assert was_open
    assert asyncio.get_running_loop().time() - asked_at == pytest.approx(SILENCE, abs=0.001)
    assert there.is_aborted


@far
async def test_a_link_that_is_cut_is_found_however_short_all_deadlines_are(
    link: Link, there: Far
) -> None:
    """Each of them is too short to tell, one after the other is not."""
    assert await ask(link, within=LONG) == b"PONG"
    there.is_cut = True
    asked_at = asyncio.get_running_loop().time()

    while link.is_open:
        with pytest.raises(OutcomeUnknown):
            await ask(link, within=SHORT)

    assert asyncio.get_running_loop().time() - asked_at < SILENCE + 2 * SHORT


@far
async def test_a_link_that_is_cut_is_lost_at_the_deadline_of_a_patient_request(
    link: Link, there: Far
) -> None:
    there.is_cut = True

    with pytest.raises(OutcomeUnknown):
        await ask(link, within=LONG)

    assert not link.is_open


@far
async def test_a_subscription_that_is_not_confirmed_in_time_is_taken_back(
    link: Link, there: Far
) -> None:
    """The connection lives on, and nobody would hear what comes by the old name."""
    clock = VirtualClock(asyncio.get_running_loop())  # type: ignore[arg-type]
    wire = Wire(kind=object, options={}, clock=clock, where="there")
    wire._link = link

    with pytest.raises(OutcomeUnknown):
        await wire.subscribe(b"inbox", print, deadline=clock.now() + SHORT)
    await asyncio.sleep(0)

    assert link.is_open
    assert link.listeners == {}
    assert there.written[-1] == packed(b"UNSUBSCRIBE", b"inbox")
