"""A TCP proxy that fails on command: it holds, drops and cuts, in either direction.

It runs on a loop in a thread of its own. What it does to a single request is told by bytes
that the request contains, such as the name of a script, so that the connecting before it
is left in peace.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Self

RESET = struct.pack("ii", 1, 0)
"""SO_LINGER of no time: closing sends a reset, not an end."""


class Direction:
    """One way of one connection: to the server (up), or to the client (down)."""

    def __init__(self) -> None:
        self.is_dropped = False
        self.left: int | None = None
        self.is_open = asyncio.Event()
        self.is_open.set()


class Connection:
    """A client's connection and the one to the server that belongs to it."""

    def __init__(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self.client = client
        self.server = server
        self.up = Direction()
        self.down = Direction()

    def reset(self) -> None:
        self.reset_client()
        _reset(self.server)

    def reset_client(self) -> None:
        """Let only the client know that it is over."""
        _reset(self.client)


def _reset(writer: asyncio.StreamWriter) -> None:
    sock = writer.get_extra_info("socket")
    if sock is not None and sock.fileno() >= 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    writer.transport.abort()


@dataclass
class Rule:
    """What happens to the connection on which a request with these bytes comes by."""

    needle: bytes
    act: Callable[[Connection], None]
    left: float
    met: threading.Event


class Proxy:
    """Stands before a server of this machine."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._rules: list[Rule] = []
        self._connections: set[Connection] = set()
        self._is_refusing = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = self._on_loop(asyncio.start_server, self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}"
        return self

    def __exit__(self, *_: object) -> None:
        self._on_loop(self._close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # -- what a test may ask for ---------------------------------------------------------

    def lose_reply_to(self, needle: bytes, *, times: float = 1) -> threading.Event:
        """Deliver the request and drop what its connection answers; set when it came by."""
        return self._rule(needle, lambda one: setattr(one.down, "is_dropped", True), times)

    def cut_reply_to(self, needle: bytes, *, after: int) -> threading.Event:
        """Deliver the request and so many bytes of its reply, then reset the connection."""
        return self._rule(needle, lambda one: setattr(one.down, "left", after), 1)

    def hold_requests(self, needle: bytes, *, times: float = 1) -> threading.Event:
        """Keep the request, and whatever follows on its connection."""
        return self._rule(needle, lambda one: one.up.is_open.clear(), times)

    def let_through(self) -> None:
        """Deliver what is held, also if its client has gone meanwhile."""
        self._rules.clear()
        self._on_loop(self._open_all)

    def reset(self) -> None:
        """Reset all connections."""
        self._on_loop(self._reset_all)

    def refuse(self) -> None:
        """Reset all connections, and each new one at once."""
        self._is_refusing = True
        self.reset()

    def accept(self) -> None:
        """Be of service again."""
        self._is_refusing = False

    @property
    def connections(self) -> int:
        return len(self._connections)

    # -- how it is done --------------------------------------------------------------------

    def _rule(
        self, needle: bytes, act: Callable[[Connection], None], times: float
    ) -> threading.Event:
        met = threading.Event()
        self._rules.append(Rule(needle, act, times, met))
        return met

    def _on_loop(self, function: Callable[..., Awaitable[Any]], *arguments: object) -> Any:
        async def work() -> Any:
            return await function(*arguments)

        return asyncio.run_coroutine_threadsafe(work(), self._loop).result(10)

    async def _open_all(self) -> None:
        for one in self._connections:
            one.up.is_open.set()
            one.down.is_open.set()

    async def _reset_all(self) -> None:
        for one in self._connections:
            one.reset()

    async def _close(self) -> None:
        self._server.close()
        self._is_refusing = True
        await self._open_all()
        await self._reset_all()
        tasks = [one for one in asyncio.all_tasks() if one is not asyncio.current_task()]
        if tasks:
            await asyncio.wait(tasks, timeout=5)

    async def _serve(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        try:
            answers, server = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            client.transport.abort()
            return
        if self._is_refusing:
            client.transport.abort()
            server.transport.abort()
            return
        one = Connection(client, server)
        self._connections.add(one)
        try:
            await asyncio.gather(
                self._pump(reader, server, one, one.up), self._pump(answers, client, one, one.down)
            )
        finally:
            self._connections.discard(one)
            client.close()
            server.close()

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        one: Connection,
        direction: Direction,
    ) -> None:
        try:
            while data := await reader.read(65536):
                if direction is one.up:
                    self._apply_rules(one, data)
                await direction.is_open.wait()
                if direction.is_dropped:
                    continue
                if direction.left is not None:
                    writer.write(data[: direction.left])
                    await writer.drain()
                    one.reset()
                    return
                writer.write(data)
                await writer.drain()
            writer.close()
        except OSError:
            one.reset()

    def _apply_rules(self, one: Connection, data: bytes) -> None:
        for rule in self._rules:
            if rule.left > 0 and rule.needle in data:
                rule.left -= 1
                rule.act(one)
                rule.met.set()
