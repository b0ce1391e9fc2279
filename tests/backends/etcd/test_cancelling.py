"""A call that is cancelled: the server is notified, and no other call is disturbed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from lockfast import BackendUnavailable
from lockfast.backends.etcd import address, requests
from lockfast.backends.etcd._async.members import AsyncMembers
from lockfast.runtime.clock import Clock
from lockfast_challenge.processes import eventually
from lockfast_challenge.servers.etcd import EtcdServer

PATIENCE = 20.0

clock = Clock()


def _transport(url: str) -> AsyncMembers:
    return AsyncMembers(address.of_url(url, where=url, namespace="test", options={}), clock=clock)


async def _until(is_so: Callable[[], bool]) -> None:
    """Wait in a thread until the condition holds, so that the loop goes on."""
    await asyncio.to_thread(eventually, is_so)


def _wait(tasks: list[asyncio.Task[Any]]) -> bool:
    """Return whether all tasks are waiting for something."""
    return all(one._fut_waiter is not None for one in tasks)  # type: ignore[attr-defined]


def test_a_cancelled_call_leaves_the_others_alone():
    async def run() -> None:
        transport = _transport(server.url)
        await transport.ask(requests.put(b"a", b"1"), deadline=clock.now() + PATIENCE)
        server.pause()
        asked = [
            asyncio.create_task(
                transport.ask(requests.range_(b"a"), deadline=clock.now() + PATIENCE)
            )
            for _ in range(10)
        ]
        [channel] = transport._members
        talk = channel._connection.http2
        await _until(lambda: len(talk._calls) == 10 and not talk.has_outgoing)
        for one in asked[::2]:
            one.cancel()
        await asyncio.wait(asked[::2])
        server.resume()

        found = await asyncio.gather(*asked[1::2])
        again = await transport.ask(requests.range_(b"a"), deadline=clock.now() + PATIENCE)

        assert all(one.cancelled() for one in asked[::2])
        assert [one.keys for one in found] == [again.keys] * 5
        assert talk.is_idle
        await transport.close()

    with EtcdServer() as server:
        asyncio.run(run())


def test_who_is_cancelled_while_connecting_does_not_end_it_for_the_others():
    async def run() -> None:
        server.pause()
        transport = _transport(server.url)
        asked = [
            asyncio.create_task(
                transport.ask(requests.range_(b"a"), deadline=clock.now() + PATIENCE)
            )
            for _ in range(2)
        ]
        [channel] = transport._members
        await _until(lambda: channel._connecting._flight is not None and _wait(asked))
        asked[0].cancel()
        await asyncio.wait(asked[:1])
        server.resume()

        assert (await asked[1]).total == 0
        await transport.close()

    with EtcdServer() as server:
        asyncio.run(run())


def test_who_is_still_connecting_when_it_is_closed_is_told():
    """Closing ends a call that still waits for the handshake, and leaves no connection open."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.append(asyncio.current_task())
        met.set()
        await reader.read()  # until the client closes the connection
        writer.close()
        await writer.wait_closed()

    async def run() -> None:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as listener:
            transport = _transport(f"etcd://127.0.0.1:{listener.sockets[0].getsockname()[1]}")
            asking = asyncio.create_task(
                transport.ask(requests.range_(b"a"), deadline=clock.now() + PATIENCE)
            )
            await met.wait()

            await transport.close()

            with pytest.raises(BackendUnavailable, match="closed"):
                await asking
            async with asyncio.timeout(PATIENCE):
                await asyncio.gather(*served)

    met, served = asyncio.Event(), []
    asyncio.run(run())
