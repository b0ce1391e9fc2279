"""All Sentinels are asked at once: one that is silent costs its own time, once."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from lockfast.backends.redis._async.sentinel import AsyncSentinelWire
from lockfast.backends.redis._sync.sentinel import SentinelWire
from lockfast.backends.redis.addresses import Address
from lockfast.backends.redis.connection import aio, threads
from lockfast.backends.redis.routing import Endpoint
from lockfast.runtime.clock import Clock

SENTINELS = tuple(Endpoint("127.0.0.1", port) for port in (1, 2, 3))
PATIENCE = 10.0
"""Whoever is not there by then is not asked at the same time."""

PLACE = Address("here", "sentinel", {}, endpoints=SENTINELS, service="mymaster")


@pytest.fixture
def wire(monkeypatch) -> SentinelWire:
    """Give a way by three Sentinels who answer only when all of them are asked."""
    together = threading.Barrier(3)

    def answer(*_: object) -> dict[str, Any]:
        together.wait(PATIENCE)
        return {}

    monkeypatch.setattr("lockfast.backends.redis._sync.sentinel._masters", answer)
    kind = threads.kind_of_connection(tls=False, is_socket=False)
    return SentinelWire(PLACE, kind=kind, options={}, clock=Clock())


def test_all_sentinels_are_asked_at_once_for_a_diagnosis(wire):
    assert wire.views(deadline=Clock().now() + PATIENCE) == {one: {} for one in SENTINELS}


def test_all_sentinels_are_asked_at_once_before_a_request(wire):
    """One that is silent costs its own time, and not as often as there are others."""
    wire._look_again()

    assert set(wire._watchers) == set(SENTINELS)


def test_all_sentinels_are_asked_at_once_in_asyncio(monkeypatch):
    async def main() -> None:
        asked: list[object] = []
        all_asked = asyncio.Event()

        async def answer(client: object, _service: str) -> dict[str, Any]:
            asked.append(client)
            if len(asked) == len(SENTINELS):
                all_asked.set()
            await all_asked.wait()
            return {}

        monkeypatch.setattr("lockfast.backends.redis._async.sentinel._masters", answer)
        kind = aio.kind_of_connection(tls=False, is_socket=False)
        wire = AsyncSentinelWire(PLACE, kind=kind, options={}, clock=Clock())
        async with asyncio.timeout(PATIENCE):
            found = await wire.views(deadline=Clock().now() + PATIENCE)
        assert found == {one: {} for one in SENTINELS}

    asyncio.run(main())


def test_a_look_that_fails_does_not_fail_the_request_that_made_it(wire, monkeypatch):
    """Whatever the driver makes of what it is given there is no word of a Sentinel."""

    def fail(*_: object) -> None:
        raise NotImplementedError

    monkeypatch.setattr("lockfast.backends.redis._sync.sentinel._masters", fail)
    wire._master = Endpoint("127.0.0.1", 4)

    wire._look(Clock().now() + PATIENCE)

    assert set(wire._silent) == set(SENTINELS)
