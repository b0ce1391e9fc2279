"""The doorbell by itself: whom it wakes, on which loop, and what may go wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from lockfast.backends.sqlite.doorbell import Doorbell
from lockfast.backends.sqlite.listener_aio import DoorbellListener
from lockfast.runtime.aio import WakeEvent
from lockfast.runtime.clock import Clock
from lockfast_challenge.processes import EVENTUALLY_SECONDS


@pytest.fixture
def bells() -> Iterator[Callable[[], Doorbell]]:
    made: list[Doorbell] = []

    def make() -> Doorbell:
        made.append(Doorbell())
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_a_loop_that_watches_no_sockets_hears_the_bell_too(bells, monkeypatch):
    """On a loop without `add_reader`, as on Windows, waiters are still woken and need not poll."""

    def refuse(_loop: object, *_rest: object) -> None:
        raise NotImplementedError

    monkeypatch.setattr(asyncio.selector_events.BaseSelectorEventLoop, "add_reader", refuse)
    ours, theirs = bells(), bells()
    clock = Clock()

    async def scenario() -> list[str]:
        received: list[str] = []
        rung = WakeEvent()

        def hear(claim_id: str) -> None:
            received.append(claim_id)
            rung.set()

        subscription = DoorbellListener(ours, hear, clock=clock)
        addresses = [ours.hang("first"), ours.hang("second")]
        theirs.ring(["9:strangers", *addresses[:1]])
        await subscription.wait_for_event(rung, deadline=clock.now() + EVENTUALLY_SECONDS)
        rung.clear()
        theirs.ring(addresses[1:])
        await subscription.wait_for_event(rung, deadline=clock.now() + EVENTUALLY_SECONDS)
        subscription.close()
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return received

    assert asyncio.run(scenario()) == ["first", "second"]


def test_a_ring_that_found_nobody_does_not_hide_those_that_come(bells, monkeypatch):
    """Windows reports a failed ring at the next receive; later datagrams are still received."""
    ours, theirs = bells(), bells()
    address = ours.hang("claim")
    theirs.ring([address])
    answers: list[Exception | None] = [ConnectionResetError(), None]

    class Telling:
        def recv(self, _size: int) -> bytes:
            answer = answers.pop(0) if answers else BlockingIOError()
            if answer is not None:
                raise answer
            return address.partition(":")[2].encode()

        def close(self) -> None:
            real.close()

    real, ours._socket = ours._socket, Telling()

    assert list(ours.received()) == ["claim"]
