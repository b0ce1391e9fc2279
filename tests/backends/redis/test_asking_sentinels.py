"""All Sentinels are asked at once, so that silent ones cost one timeout in all."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from lockfast.backends.network.target import Target
from lockfast.backends.redis._async.sentinel import AsyncSentinelQuery, AsyncSentinelTransport
from lockfast.backends.redis._sync.sentinel import SentinelQuery, SentinelTransport
from lockfast.backends.redis.address import Address, ServerSettings
from lockfast.backends.redis.sentinel_replies import Masters, Named, WatchedMaster
from lockfast.core.descriptor import Endpoint
from lockfast.runtime.clock import Clock

SENTINELS = tuple(Endpoint("127.0.0.1", port) for port in (1, 2, 3))
PATIENCE = 10.0
"""Timeout within which all Sentinels must be asked, in seconds."""

HERE = ServerSettings(Target("here", None))
PLACE = Address("sentinel", HERE, SENTINELS, "mymaster", HERE)


@pytest.fixture
def transport(monkeypatch) -> SentinelTransport:
    """A transport with three Sentinels that answer only once all of them are asked."""
    together = threading.Barrier(3)

    def answer(*_: object, **__: object) -> dict[str, Any]:
        together.wait(PATIENCE)
        return {}

    monkeypatch.setattr(SentinelQuery, "masters", answer)
    return SentinelTransport(PLACE, clock=Clock())


def test_all_sentinels_are_asked_at_once_for_a_diagnosis(transport):
    assert transport.views(deadline=Clock().now() + PATIENCE) == {one: {} for one in SENTINELS}


def test_all_sentinels_are_asked_at_once_before_a_request(transport):
    """All Sentinels are asked in parallel, so that silent ones cost one timeout in all."""
    transport._poll_sentinels()

    assert not transport._silent


def test_all_sentinels_are_asked_at_once_in_asyncio(monkeypatch):
    async def main() -> None:
        asked: list[object] = []
        all_asked = asyncio.Event()

        async def answer(query: object, *, deadline: float) -> dict[str, Any]:
            asked.append(query)
            if len(asked) == len(SENTINELS):
                all_asked.set()
            await all_asked.wait()
            return {}

        monkeypatch.setattr(AsyncSentinelQuery, "masters", answer)
        transport = AsyncSentinelTransport(PLACE, clock=Clock())
        async with asyncio.timeout(PATIENCE):
            found = await transport.views(deadline=Clock().now() + PATIENCE)
        assert found == {one: {} for one in SENTINELS}

    asyncio.run(main())


def test_a_look_that_fails_does_not_fail_the_request_that_made_it(transport, monkeypatch):
    """A Sentinel whose reply cannot be read counts as silent, and the request goes on."""
    monkeypatch.undo()
    monkeypatch.setattr(SentinelQuery, "ask", lambda *_, **__: [[b"name"], 7])
    transport._master = Endpoint("127.0.0.1", 4)

    transport._check_master(Clock().now() + PATIENCE)

    assert set(transport._silent) == set(SENTINELS)


def test_an_outdated_answer_does_not_bring_the_old_master_back(transport, monkeypatch):
    """A caller that was slow to connect notices that another one has learned of a failover."""
    old, new = (Named(epoch, Endpoint("127.0.0.1", 6000 + epoch)) for epoch in (1, 2))
    answers, closed = [old, new, new], []

    def master(*_: object, **__: object) -> Masters:
        found = answers[0]
        return {"mymaster": WatchedMaster(found, frozenset({"master"}), quorum=2, sentinels=3)}

    class Connection:
        def __init__(self, port: int) -> None:
            self.port = port

        def close(self) -> None:
            closed.append(self.port)

    def connect_to(target: Target, _: float) -> Connection:
        assert target.endpoint is not None
        if answers.pop(0) is old:  # meanwhile another caller connects to the new master
            transport.connect(deadline=Clock().now() + PATIENCE)
        return Connection(target.endpoint.port)

    monkeypatch.undo()
    monkeypatch.setattr(SentinelQuery, "masters", master)
    monkeypatch.setattr(transport, "_connect_to", connect_to)

    connection = transport.connect(deadline=Clock().now() + PATIENCE)

    assert connection.port == new.endpoint.port
    assert closed == [old.endpoint.port]
    assert transport._master == new.endpoint
