"""Some refusals leave a connection that can no longer match replies to requests."""

from __future__ import annotations

import asyncio

import pytest

from lockfast import BackendUnavailable, OutcomeUnknown
from lockfast.backends.memcached import meta
from lockfast.backends.memcached.address import address_of_url
from lockfast.backends.memcached.connection_aio import MemcachedConnection
from lockfast.backends.memcached.errors import refused
from lockfast.backends.memcached.handshake import handshake
from lockfast.runtime.clock import Clock


class Transport:
    def __init__(self) -> None:
        self.written: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def abort(self) -> None:
        pass

    close = abort


async def answered(data: bytes) -> list[object]:
    """Return the outcomes of two requests whose replies come in one packet."""
    connection = MemcachedConnection(b"lockfast", Clock(), where="here")
    connection.connection_made(Transport())  # type: ignore[arg-type]
    moment = asyncio.get_running_loop().time() + 60
    both = [connection.send(meta.NOOP, deadline=moment) for _ in range(2)]
    await asyncio.sleep(0)  # the requests are sent here
    connection.data_received(data)
    return list(await asyncio.gather(*both, return_exceptions=True))


def test_nothing_behind_a_refusal_that_is_out_of_step_is_an_answer():
    first, second = asyncio.run(answered(b"CLIENT_ERROR bad data chunk\r\nHD c7\r\n"))

    assert isinstance(first, meta.MetaError)
    assert isinstance(second, OutcomeUnknown)


@pytest.mark.parametrize(
    "refusal", [b"SERVER_ERROR out of memory", b"CLIENT_ERROR unauthenticated"]
)
def test_behind_another_refusal_the_next_answer_is_the_nexts(refusal):
    first, second = asyncio.run(answered(refusal + b"\r\nMN\r\n"))

    assert isinstance(first, meta.MetaError)
    assert second == meta.MetaFlags(b"MN")


@pytest.mark.parametrize(
    "words", ["ERROR Too many open connections", "SERVER_ERROR out of memory storing object"]
)
def test_a_server_without_room_is_an_outage(words):
    assert isinstance(refused(meta.MetaError(words), where="here"), BackendUnavailable)


def test_a_server_without_room_may_say_so_before_it_is_asked():
    """A server may refuse right after it accepts; a request not sent by then is never sent."""

    async def play() -> None:
        connection, transport = MemcachedConnection(b"lockfast", Clock(), where="here"), Transport()
        connection.connection_made(transport)  # type: ignore[arg-type]
        until = asyncio.get_running_loop().time() + 60
        steps = handshake(address_of_url("memcached://here", where="here", options={}))
        greeting = asyncio.ensure_future(connection.run_handshake(steps, until=until))
        await asyncio.sleep(0)

        connection.data_received(b"ERROR Too many open connections\r\n")

        with pytest.raises(BackendUnavailable, match="no room for another connection"):
            await greeting
        assert not connection.is_open
        assert not transport.written

    asyncio.run(play())


def test_another_refusal_that_comes_before_it_was_asked_for_is_no_answer():
    """The connection is left before the request is sent, so nothing was done."""

    async def play() -> None:
        connection = MemcachedConnection(b"lockfast", Clock(), where="here")
        connection.connection_made(Transport())  # type: ignore[arg-type]
        asked = connection.send(meta.NOOP, deadline=asyncio.get_running_loop().time() + 60)

        connection.data_received(b"SERVER_ERROR out of memory\r\n")

        with pytest.raises(BackendUnavailable):
            await asked

    asyncio.run(play())
