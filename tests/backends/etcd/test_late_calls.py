"""Calls of the asyncio flavour that time out: later events do not falsify the reported outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from backends.etcd.impostors import GREETING, end, message

from lockfast.backends.etcd.connection_aio import EtcdConnection, PendingCall
from lockfast.backends.etcd.http2 import frames
from lockfast.backends.etcd.http2.frames import frame
from lockfast.backends.etcd.http2.grpc import BrokenCall, prefixed
from lockfast.backends.network.codec import SILENCE_SECONDS
from lockfast.testing import run_in_virtual_time

LONG = 3600.0
ONE_AT_A_TIME = frame(
    frames.SETTINGS, 0, 0, frames.MOST_STREAMS.to_bytes(2, "big") + (1).to_bytes(4, "big")
)
UNDONE = BrokenCall("no answer in time", is_undone=True)
UNKNOWN = BrokenCall("no answer in time", is_undone=False)


class Member(asyncio.Transport):
    """A transport that records what the connection writes."""

    def __init__(self) -> None:
        super().__init__()
        self.told = bytearray()

    def write(self, data: object) -> None:
        assert isinstance(data, bytes)
        self.told += data

    def get_write_buffer_size(self) -> int:
        return 0

    def abort(self) -> None:
        """Nothing has to be closed."""

    def frames(self) -> list[tuple[int, int]]:
        """Return the kind and the stream of each recorded frame."""
        found, at = [], self.told.index(b"SM\r\n\r\n") + len(b"SM\r\n\r\n")
        while at < len(self.told):
            size, kind, _, stream = frames.head_of(self.told, at)
            at += frames.FRAME_HEAD_BYTES + size
            found.append((kind, stream))
        return found


class Scene:
    """A connection, and the callers that wait for replies on it."""

    def __init__(self, greeting: bytes) -> None:
        self.member = Member()
        self.lost: list[EtcdConnection] = []
        self.connection = EtcdConnection(lost=self.lost.append)
        self.connection.connection_made(self.member)
        self.connection.data_received(greeting)

    async def ask(self, body: bytes = b"question") -> tuple[PendingCall, asyncio.Task[object]]:
        """Begin a call that has plenty of time."""
        known = set(self.connection._calls)
        deadline = asyncio.get_running_loop().time() + LONG
        task = asyncio.create_task(self.connection.ask(b"", body, deadline=deadline))
        while not self.connection._calls - known:  # noqa: ASYNC110 - waits for the loop's next turn
            await asyncio.sleep(0)
        [call] = self.connection._calls - known
        return call, task

    def time_is_up(self, *calls: PendingCall) -> None:
        """Let these calls time out just before something else arrives."""
        for one in calls:
            one.deadline = asyncio.get_running_loop().time()
        self.connection._unanswered_since = None  # otherwise the connection may count as lost
        self.connection._check_deadlines()

    async def flushed(self) -> list[tuple[int, int]]:
        """Return all frames that were written to the member, once none is pending."""
        while self.connection._is_flushing:  # noqa: ASYNC110 - waits for the loop's next turn
            await asyncio.sleep(0)
        return self.member.frames()


def told(story: Callable[[Scene], Awaitable[None]], *, greeting: bytes = GREETING) -> None:
    async def main() -> None:
        async with asyncio.timeout(60):
            await story(Scene(greeting))

    asyncio.run(main())


def test_one_that_waits_for_its_turn_is_not_begun_when_that_comes():
    """A call that times out before its turn is never sent, and the outcome says so."""

    async def story(scene: Scene) -> None:
        _, first = await scene.ask()
        late, second = await scene.ask()

        scene.time_is_up(late)
        scene.connection.data_received(message(1, prefixed(b"answer")) + end(1))

        assert await first == b"answer"
        assert await second == UNDONE
        assert 3 not in [stream for _, stream in await scene.flushed()]

    told(story, greeting=ONE_AT_A_TIME)


def test_those_that_are_late_together_do_not_get_each_others_turn():
    async def story(scene: Scene) -> None:
        calls, tasks = zip(*[await scene.ask() for _ in range(6)], strict=True)

        scene.time_is_up(*calls)

        ends = await asyncio.gather(*tasks)
        assert ends == [UNKNOWN, *[UNDONE] * 5]
        assert {stream for _, stream in await scene.flushed()} == {0, 1}

    told(story, greeting=ONE_AT_A_TIME)


def test_one_that_waits_for_room_is_not_sent_when_there_is_some():
    async def story(scene: Scene) -> None:
        late, task = await scene.ask(b"q" * 2 * frames.DEFAULT_WINDOW_BYTES)
        sent = (await scene.flushed()).count((frames.DATA, 1))

        scene.time_is_up(late)
        room = (4 * frames.DEFAULT_WINDOW_BYTES).to_bytes(4, "big")
        for stream in (0, 1):
            scene.connection.data_received(frame(frames.WINDOW_UPDATE, 0, stream, room))

        assert await task == UNDONE
        after = await scene.flushed()
        assert after.count((frames.DATA, 1)) == sent
        assert after[-1] == (frames.RST_STREAM, 1)

    told(story)


@pytest.mark.parametrize("number", [1, 3])
def test_a_connection_that_is_left_ends_with_the_last_that_is_late(number):
    """After GOAWAY, a connection ends as soon as its last pending call times out."""

    async def story(scene: Scene) -> None:
        calls, tasks = zip(*[await scene.ask() for _ in range(number)], strict=True)
        scene.connection.data_received(frame(frames.GOAWAY, 0, 0, b"\x7f\xff\xff\xff" + bytes(4)))

        scene.time_is_up(*calls)

        assert await asyncio.gather(*tasks) == [UNKNOWN] * number
        assert not scene.connection.is_open
        assert scene.connection._is_lost

    told(story)


def test_a_late_call_after_a_pause_fails_alone():
    """The member was silent for long because nothing was asked of it; that is no sign of a cut."""

    async def story() -> None:
        scene = Scene(GREETING)
        _, first = await scene.ask()
        scene.connection.data_received(message(1, prefixed(b"reply")) + end(1))
        assert await first == b"reply"

        await asyncio.sleep(100 * SILENCE_SECONDS)
        deadline = asyncio.get_running_loop().time() + SILENCE_SECONDS / 2
        assert await scene.connection.ask(b"", b"request", deadline=deadline) == UNKNOWN

        assert scene.connection.is_open

    run_in_virtual_time(story())
