"""When asyncio sends requests: a lone request at once, those of many tasks together."""

from __future__ import annotations

import asyncio

import pytest

from lockfast import BackendUnavailable
from lockfast.backends.network.connection_aio import FLUSH_BATCH
from lockfast.backends.network.target import Target
from lockfast.backends.redis.address import ServerSettings
from lockfast.backends.redis.connection_aio import RedisConnection, RedisTransport
from lockfast.backends.redis.resp import packed
from lockfast.runtime.clock import Clock

ASKED = packed(b"TIME")
PATIENCE = 60.0


class Sent:
    """An asyncio transport that records what is written, one item per write."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.writes.append(data)

    def abort(self) -> None:
        pass


class TalksTo(RedisTransport):
    """A transport with one given connection."""

    def __init__(self, connection: RedisConnection) -> None:
        super().__init__(ServerSettings(Target("nowhere", None)), clock=Clock())
        self._connection = connection

    def asks(self) -> asyncio.Future[object]:
        return asyncio.ensure_future(self.ask(ASKED, deadline=Clock().now() + PATIENCE))


def linked() -> tuple[Sent, RedisConnection, TalksTo]:
    sent, connection = Sent(), RedisConnection(where="nowhere")
    connection.connection_made(sent)  # type: ignore[arg-type]
    return sent, connection, TalksTo(connection)


def test_a_lone_request_goes_out_at_once():
    """A lone request has no others to be batched with, so it does not wait for the next turn."""

    async def play() -> None:
        sent, connection, transport = linked()

        reply = transport.asks()

        assert sent.writes == [ASKED]
        connection.data_received(b":7\r\n")
        assert await reply == 7
        connection.close()

    asyncio.run(play())


def test_requests_of_one_turn_go_out_together():
    """Requests of one turn go out in batches, so that the server starts before all are written."""

    async def play() -> None:
        sent, connection, transport = linked()
        replies = [transport.asks() for _ in range(1 + FLUSH_BATCH + 3)]

        assert sent.writes == [ASKED, ASKED * FLUSH_BATCH]
        await asyncio.sleep(0)
        assert sent.writes == [ASKED, ASKED * FLUSH_BATCH, ASKED * 3]

        connection.data_received(b"".join(b":%d\r\n" % number for number in range(len(replies))))
        assert await asyncio.gather(*replies) == list(range(len(replies)))
        connection.close()

    asyncio.run(play())


def test_what_is_asked_as_one_goes_out_as_one():
    """Requests that are passed to one `send_all` go out in a single write."""

    async def play() -> None:
        sent, connection, transport = linked()
        asking = asyncio.ensure_future(
            transport.send_all([ASKED] * 2, deadline=Clock().now() + PATIENCE)
        )
        await asyncio.sleep(0)  # the task starts
        await asyncio.sleep(0)  # and sends its requests

        assert sent.writes == [ASKED * 2]
        connection.data_received(b":1\r\n:2\r\n")
        assert await asking == [1, 2]
        connection.close()

    asyncio.run(play())


def test_a_loop_goes_to_sleep_although_no_answer_comes():
    """The loop polls for a reply only briefly, and then sleeps until the reply comes."""

    async def play() -> None:
        _, connection, transport = linked()
        turns = 0
        reply = transport.asks()
        ready = asyncio.get_running_loop()._ready  # type: ignore[attr-defined]
        while ready:
            turns += 1
            await asyncio.sleep(0)
            assert turns < 1000

        connection.data_received(b":1\r\n")
        assert await reply == 1
        connection.close()

    asyncio.run(play())


def test_what_comes_before_a_request_has_gone_out_is_not_its_answer():
    """A reply that arrives before its request was sent must not be taken for a grant."""

    async def play() -> None:
        _, connection, transport = linked()
        first, second = transport.asks(), transport.asks()

        connection.data_received(b":7\r\n:8\r\n")

        assert await first == 7
        with pytest.raises(BackendUnavailable):
            await second
        assert not connection.is_open

    asyncio.run(play())
