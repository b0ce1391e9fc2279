"""Several calls at once, where there is no event loop for it."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

import pytest

from holdfast.backends.redis.addresses import Address
from holdfast.backends.redis.connection.threads import kind_of_connection
from holdfast.backends.redis.routing import Endpoint
from holdfast.backends.redis.sentinel.threads import SentinelWire
from holdfast.backends.redis.side_by_side import side_by_side
from holdfast.runtime.clock import Clock

SENTINELS = tuple(Endpoint("127.0.0.1", port) for port in (1, 2, 3))
PATIENCE = 10.0
"""Whoever is not there by then is not asked at the same time."""


def test_each_call_is_made_while_the_others_are():
    together = threading.Barrier(3)

    found = side_by_side([lambda one=one: (together.wait(PATIENCE), one)[1] for one in "abc"])

    assert found == ["a", "b", "c"]


def test_no_call_is_no_answer():
    assert side_by_side([]) == []


def test_an_error_of_one_is_raised_once_all_have_ended():
    ended = []

    def fail() -> None:
        raise LookupError("no")

    with pytest.raises(LookupError):
        side_by_side([fail, partial(ended.append, 1), partial(ended.append, 2)])

    assert sorted(ended) == [1, 2]


def test_where_no_thread_is_to_be_had_they_are_made_one_by_one(monkeypatch):
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        found = side_by_side([lambda one=one: one for one in range(3)])

    assert found == [0, 1, 2]


@pytest.fixture
def wire(monkeypatch) -> SentinelWire:
    """Give a way by three Sentinels who answer only when all of them are asked."""
    together = threading.Barrier(3)

    def answer(*_: object) -> dict[str, Any]:
        together.wait(PATIENCE)
        return {}

    monkeypatch.setattr("holdfast.backends.redis.sentinel.threads._masters", answer)
    kind = kind_of_connection(tls=False, is_socket=False)
    place = Address("here", "sentinel", {}, endpoints=SENTINELS, service="mymaster")
    return SentinelWire(place, kind=kind, options={}, clock=Clock())


def test_all_sentinels_are_asked_at_once_for_a_diagnosis(wire):
    assert wire.views(deadline=Clock().now() + PATIENCE) == {one: {} for one in SENTINELS}


def test_all_sentinels_are_asked_at_once_before_a_request(wire):
    """One that is silent costs its own time, and not as often as there are others."""
    wire._look_again()

    assert set(wire._watchers) == set(SENTINELS)
