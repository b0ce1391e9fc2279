"""When the shared asyncio connection is given up, and when one request fails alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from lockfast import BackendUnavailable, OutcomeUnknown
from lockfast.backends.network.codec import SILENCE_SECONDS
from lockfast.backends.network.target import Target
from lockfast.backends.redis.address import ServerSettings
from lockfast.backends.redis.connection_aio import RedisConnection, RedisTransport
from lockfast.backends.redis.resp import packed
from lockfast.testing import VirtualClock, run_in_virtual_time

SHORT, LONG = SILENCE_SECONDS / 10, SILENCE_SECONDS * 10
PING, PONG = packed(b"PING"), b"+PONG\r\n"


class Far:
    """A transport to a server that answers each request after a round trip, unless cut off."""

    def __init__(self, connection: RedisConnection, round_trip: float) -> None:
        self.connection = connection
        self.round_trip = round_trip
        self.is_cut = False
        self.is_aborted = False
        self.written: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.written.append(data)
        answer = PONG * data.count(PING)
        if answer and not self.is_cut:
            asyncio.get_running_loop().call_later(
                self.round_trip, self.connection.data_received, answer
            )

    def abort(self) -> None:
        self.is_aborted = True


def far(test: Callable[[RedisConnection, Far], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Run a test in virtual time; the connection's round trip is longer than a short deadline."""

    async def main() -> None:
        connection = RedisConnection(where="there")
        there = Far(connection, SILENCE_SECONDS / 2)
        connection.connection_made(there)  # type: ignore[arg-type]
        await test(connection, there)

    def run() -> None:
        run_in_virtual_time(main())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


def ask(connection: RedisConnection, *, within: float) -> asyncio.Future[Any]:
    return connection.send(PING, deadline=asyncio.get_running_loop().time() + within)


@far
async def test_a_deadline_shorter_than_a_round_trip_fails_alone(
    connection: RedisConnection, there: Far
) -> None:
    """A request with a short deadline fails alone; patient requests still get their replies."""
    hurried, patient = ask(connection, within=SHORT), ask(connection, within=LONG)

    with pytest.raises(OutcomeUnknown):
        await hurried

    assert await patient == b"PONG"
    assert await ask(connection, within=LONG) == b"PONG"
    assert connection.is_open


@far
async def test_a_link_that_is_cut_is_found_by_one_hurried_request(
    connection: RedisConnection, there: Far
) -> None:
    """One unanswered request reveals a cut link once the link has been silent long enough."""
    there.is_cut = True
    asked_at = asyncio.get_running_loop().time()
    with pytest.raises(OutcomeUnknown):
        await ask(connection, within=SHORT)
    was_open = connection.is_open

    await connection.lost

    assert was_open
    assert asyncio.get_running_loop().time() - asked_at == pytest.approx(SILENCE_SECONDS, abs=0.001)
    assert there.is_aborted


@far
async def test_a_link_that_is_cut_is_found_however_short_all_deadlines_are(
    connection: RedisConnection, there: Far
) -> None:
    """Several hurried requests in a row reveal a cut link, though each alone is too short."""
    assert await ask(connection, within=LONG) == b"PONG"
    there.is_cut = True
    asked_at = asyncio.get_running_loop().time()

    while connection.is_open:
        with pytest.raises(OutcomeUnknown):
            await ask(connection, within=SHORT)

    assert asyncio.get_running_loop().time() - asked_at < SILENCE_SECONDS + 2 * SHORT


@far
async def test_a_link_that_is_cut_is_lost_at_the_deadline_of_a_patient_request(
    connection: RedisConnection, there: Far
) -> None:
    there.is_cut = True

    with pytest.raises(OutcomeUnknown):
        await ask(connection, within=LONG)

    assert not connection.is_open


@far
async def test_a_request_on_a_connection_that_has_ended_fails_at_once(
    connection: RedisConnection, there: Far
) -> None:
    """A server may close a new connection before the task that waited for it sends anything."""
    unsent = ask(connection, within=LONG)
    connection.connection_lost(None)
    asked_at = asyncio.get_running_loop().time()

    for late in (unsent, ask(connection, within=LONG)):
        with pytest.raises(BackendUnavailable):
            await late

    assert asyncio.get_running_loop().time() == asked_at
    assert there.written == []


@far
async def test_a_subscription_that_is_not_confirmed_in_time_is_taken_back(
    connection: RedisConnection, there: Far
) -> None:
    """A subscription that was not confirmed in time is cancelled: nothing reads its messages."""
    clock = VirtualClock(asyncio.get_running_loop())  # type: ignore[arg-type]
    transport = RedisTransport(ServerSettings(Target("there", None)), clock=clock)
    transport._connection = connection

    with pytest.raises(OutcomeUnknown):
        await transport.subscribe(b"inbox", print, deadline=clock.now() + SHORT)
    await asyncio.sleep(0)

    assert connection.is_open
    assert connection.listeners == {}
    assert there.written[-1] == packed(b"UNSUBSCRIBE", b"inbox")
