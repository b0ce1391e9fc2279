"""The wait for a connection is not part of a request, and ends if the server never replies."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, Self

import pytest
from backends.sql.test_pools import Link, connect, connect_async

from lockfast.backends.sql._async.pool import AsyncConnectionPool
from lockfast.backends.sql._sync.pool import ConnectionPool
from lockfast.backends.sql.turns import SILENT_REQUEST_TIMEOUTS, Progress, Turn
from lockfast.errors import BackendUnavailable
from lockfast.model import FOREVER
from lockfast_challenge.processes import eventually

PATIENCE = 30.0
"""A timeout that only a hang exceeds, in seconds."""

REQUEST = 0.25
SILENT = SILENT_REQUEST_TIMEOUTS * REQUEST


def test_a_request_has_its_whole_time_from_the_moment_it_has_its_turn():
    turn = Turn(REQUEST)

    assert turn.come(100.0, deadline=FOREVER) == 100.0 + REQUEST
    assert turn.started_at == 100.0


def test_no_request_outlives_the_deadline_of_the_whole_call():
    assert Turn(REQUEST).come(100.0, deadline=100.1) == 100.1
    assert Turn().come(100.0, deadline=101.0) == 101.0


def test_a_request_that_is_repeated_has_what_it_did_not_use_before():
    turn = Turn(REQUEST)
    turn.come(100.0, deadline=FOREVER)
    turn.pause_until(100.125)
    turn.wait()

    assert turn.started_at is None
    assert turn.come(200.0, deadline=FOREVER) == 200.125


def test_who_waits_goes_on_waiting_while_requests_are_answered():
    progress = Progress()
    progress.failed(101.0)
    progress.answered(150.0)

    assert progress.ends_at(since=100.0, patience=REQUEST, deadline=FOREVER) == FOREVER
    assert progress.ends_at(since=100.0, patience=REQUEST, deadline=160.0) == 160.0


def test_who_waits_gives_up_when_one_was_not_answered_and_none_for_some_request_timeouts():
    progress = Progress()
    progress.answered(150.0)
    progress.failed(151.0)

    assert progress.ends_at(since=100.0, patience=REQUEST, deadline=FOREVER) == 150.0 + SILENT
    assert progress.ends_at(since=150.5, patience=REQUEST, deadline=FOREVER) == 150.5 + SILENT
    assert progress.ends_at(since=100.0, patience=None, deadline=FOREVER) == FOREVER


# -- in the pools ----------------------------------------------------------------------


class HandClock:
    """A clock set by hand."""

    def __init__(self) -> None:
        self.time = 1000.0

    def now(self) -> float:
        return self.time


def options(clock: HandClock) -> dict[str, Any]:
    return {"where": "nowhere", "clock": clock, "most": 1, "idle": 1e6}


class Waiter:
    """Waits in its own thread for the only connection of a pool, in either flavour."""

    def __init__(self, flavour: str, clock: HandClock) -> None:
        self.clock = clock
        self.turn = Turn(REQUEST)
        self.outcome: Any = None
        self._flavour = flavour
        self._first: Any = None
        self._thread = threading.Thread(target=self._play)

    def __enter__(self) -> Self:
        self._thread.start()
        eventually(lambda: self._first is not None and self.pool._waiting, what="it waits")
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()

    def give(self, *, is_whole: bool) -> None:
        """Put back the connection that the waiter waits for, whole or closed."""
        if not is_whole:
            self._first.close()
        if self._flavour == "sync":
            self.pool.put_back(self._first)
        else:
            self._loop.call_soon_threadsafe(self.pool.put_back, self._first)

    def _play(self) -> None:
        try:
            self.outcome = (
                self._play_sync() if self._flavour == "sync" else asyncio.run(self._play_async())
            )
        except BackendUnavailable as error:
            self.outcome = error

    def _play_sync(self) -> Link:
        self.pool: Any = ConnectionPool(Link, connect, **options(self.clock))
        self._first = self.pool.take(FOREVER)
        return self.pool.take(FOREVER, self.turn)

    async def _play_async(self) -> Link:
        self._loop = asyncio.get_running_loop()
        self.pool = AsyncConnectionPool(Link, connect_async, **options(self.clock))
        self._first = await self.pool.take(FOREVER)
        return await self.pool.take(FOREVER, self.turn)


@pytest.mark.parametrize("flavour", ["sync", "async"])
def test_one_that_waited_for_longer_than_a_request_may_take_is_served(flavour):
    with Waiter(flavour, HandClock()) as waiter:
        waiter.clock.time += 100 * REQUEST
        waiter.give(is_whole=True)

    assert isinstance(waiter.outcome, Link)
    assert waiter.turn.started_at == waiter.clock.time
    assert waiter.turn.until == waiter.clock.time + REQUEST


@pytest.mark.parametrize("flavour", ["sync", "async"])
def test_one_that_waits_behind_a_request_that_failed_is_told_when_none_is_answered(flavour):
    with Waiter(flavour, HandClock()) as waiter:
        waiter.pool._progress.failed(waiter.clock.time + 1)
        waiter.clock.time += 100 * REQUEST

    assert isinstance(waiter.outcome, BackendUnavailable)
    assert "no connection was free in time" in str(waiter.outcome)


@pytest.mark.parametrize("flavour", ["sync", "async"])
def test_a_connection_that_comes_back_closed_counts_as_a_failure(flavour):
    with Waiter(flavour, HandClock()) as waiter:
        waiter.give(is_whole=False)
    now = waiter.clock.time

    ends_at = waiter.pool._progress.ends_at(since=now - 1, patience=REQUEST, deadline=FOREVER)

    assert ends_at == now - 1 + SILENT
    assert isinstance(waiter.outcome, Link)
