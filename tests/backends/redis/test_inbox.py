"""When a waiting client's background task is woken, in virtual time and without a server."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest
from backends.redis.scripted import claim
from virtual import virtual_clock

from lockfast.backends.redis import requests
from lockfast.backends.redis._async.waiting import AsyncRedisWaiting, WaitingClaim
from lockfast.backends.redis.connection_threads import RedisConnection, RedisSubscription
from lockfast.backends.waiting._async.inbox import AsyncInbox
from lockfast.runtime.clock import Clock
from lockfast.testing import run_in_virtual_time


class Heard:
    """A subscription that receives nothing and counts how often its background task is woken."""

    interrupts = 0

    def __init__(self) -> None:
        self._interrupted = asyncio.Event()

    async def listen(self, *, until: float) -> bool:
        self._interrupted.clear()
        try:
            async with asyncio.timeout(until - virtual_clock().now()):
                await self._interrupted.wait()
        except TimeoutError:
            pass
        return True

    def interrupt(self) -> None:
        self.interrupts += 1
        self._interrupted.set()

    async def wait_for_event(self, event: Any, *, deadline: float) -> None:
        await event.wait(deadline - virtual_clock().now())

    def wake_to_check(self) -> None: ...

    def abandon_in_child(self) -> None: ...

    async def close(self) -> None: ...


class Wire:
    """A transport to a server that answers every name in a heartbeat with "all is well"."""

    is_sharded = False

    def __init__(self) -> None:
        self.subscription = Heard()
        self.beats = 0

    async def subscribe(self, *_: object, **__: object) -> Heard:
        return self.subscription

    async def send_all(self, asked: list[bytes], *, deadline: float) -> list[list[int]]:
        del deadline
        self.beats += len(asked)
        return [[1, -1, 0] for _ in asked]


def inbox_on(transport: Any) -> AsyncInbox[WaitingClaim]:
    keys, clock = requests.RedisKeys("test"), virtual_clock()
    return AsyncInbox(AsyncRedisWaiting(transport, keys, clock), clock)


def join(
    inbox: AsyncInbox[WaitingClaim], number: int, *, ends_in: float, asked_on: str | None = None
) -> None:
    inbox.joined(
        WaitingClaim(claim(number), epoch=1, last_token=1, asked_at=0.0),
        ends_at=virtual_clock().now() + ends_in,
        asked_on=asked_on,
    )


def test_who_joins_a_line_wakes_the_background_only_for_what_is_due_sooner():
    """Waking the background at every join used to cost clients more than the hand-over itself."""

    async def main() -> None:
        transport: Any = Wire()
        inbox = inbox_on(transport)

        def stands(number: int, *, ends_in: float) -> int:
            before: int = transport.subscription.interrupts
            join(inbox, number, ends_in=ends_in)
            return int(transport.subscription.interrupts - before)

        stands(0, ends_in=30.0)
        waiting = asyncio.ensure_future(inbox.wait(claim(0), deadline=virtual_clock().now() + 60))
        await asyncio.sleep(0.1)
        for _ in range(100):
            inbox.left(claim(0).id)
            assert stands(0, ends_in=30.0) == 0
            await asyncio.sleep(0.01)
        assert stands(1, ends_in=0.5) == 1
        waiting.cancel()
        await inbox.stop()

    run_in_virtual_time(main())


def test_a_line_that_was_joined_without_waking_anybody_is_spoken_of_in_time():
    async def main() -> None:
        transport: Any = Wire()
        inbox = inbox_on(transport)
        join(inbox, 0, ends_in=60.0, asked_on=inbox.channel)
        waiting = asyncio.ensure_future(inbox.wait(claim(0), deadline=virtual_clock().now() + 60))
        await asyncio.sleep(1.0)
        inbox.left(claim(0).id)
        join(inbox, 1, ends_in=60.0, asked_on=inbox.channel)
        assert transport.beats == 0

        await asyncio.sleep(2.1)

        assert transport.beats == 1
        waiting.cancel()
        await inbox.stop()

    run_in_virtual_time(main())


def test_who_asked_before_the_inbox_was_opened_again_asks_once_more():
    """The wakeup of a claim that joined under an earlier name of the inbox may have been lost."""

    async def main() -> None:
        transport: Any = Wire()
        inbox = inbox_on(transport)
        first_channel = inbox.channel
        join(inbox, 0, ends_in=60.0, asked_on=inbox.channel)
        waiting = asyncio.ensure_future(inbox.wait(claim(0), deadline=virtual_clock().now() + 60))
        await asyncio.wait_for(waiting, 1.0)  # woken by the new subscription
        assert inbox.channel != first_channel

        join(inbox, 1, ends_in=60.0, asked_on=first_channel)
        join(inbox, 2, ends_in=60.0, asked_on=inbox.channel)

        await asyncio.wait_for(inbox.wait(claim(1), deadline=virtual_clock().now() + 60), 0.1)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(inbox.wait(claim(2), deadline=virtual_clock().now() + 60), 0.1)
        await inbox.stop()

    run_in_virtual_time(main())


@pytest.mark.parametrize("push", [b">1\r\n$7\r\nmessage\r\n", b">0\r\n"])
def test_a_message_of_odd_shape_ends_the_subscription(push):
    """A waiting thread may be the one that reads it; its acquire must not fail because of that."""
    ours, servers = socket.socketpair()
    with servers:
        subscription = RedisSubscription(RedisConnection(ours, Clock(), 0), print, clock=Clock())
        servers.sendall(push)

        assert not subscription.listen(until=Clock().now() + 30)

        subscription.close()
