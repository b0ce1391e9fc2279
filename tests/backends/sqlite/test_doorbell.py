"""The doorbell by itself: who is rung, on which loop, and what of it may go wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from lockfast.backends.sqlite.doorbell import Doorbell
from lockfast.backends.sqlite.subscription.aio import Subscription
from lockfast.challenge.eventually import PATIENCE
from lockfast.runtime.aio import Event
from lockfast.runtime.clock import Clock


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
    """As the one of Windows, which only receives; without it a waiter would look now and then."""

    def refuse(_loop: object, *_rest: object) -> None:
        raise NotImplementedError

    monkeypatch.setattr(asyncio.selector_events.BaseSelectorEventLoop, "add_reader", refuse)
    ours, theirs = bells(), bells()
    clock = Clock()

    async def scenario() -> list[str]:
        heard: list[str] = []
        rung = Event()

        def hear(claim_id: str) -> None:
            heard.append(claim_id)
            rung.set()

        subscription = Subscription(ours, hear, clock=clock)
        addresses = [ours.hang("first"), ours.hang("second")]
        theirs.ring(["9:strangers", *addresses[:1]])
        await subscription.attend(rung, deadline=clock.now() + PATIENCE)
        rung.clear()
        theirs.ring(addresses[1:])
        await subscription.attend(rung, deadline=clock.now() + PATIENCE)
        subscription.close()
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return heard

    assert asyncio.run(scenario()) == ["first", "second"]


def test_a_ring_that_found_nobody_does_not_hide_those_that_come(bells, monkeypatch):
    """Windows tells it by an error of the next receive, in front of what has come."""
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

    assert list(ours.heard()) == ["claim"]
