"""A TCP proxy that fails on command."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Self

from lockfast_challenge.processes import eventually

# State of a connection through a proxy: its two directions and its two ends.

RESET = struct.pack("ii", 1, 0)
"""SO_LINGER with a timeout of zero: closing sends a reset instead of a FIN."""


class Direction:
    """One direction of a connection: to the server (up), or to the client (down)."""

    def __init__(self) -> None:
        self.is_dropped = False
        self.cuts: dict[object, int] = {}
        self.cuts_all: int | None = None
        self.is_open: asyncio.Event = asyncio.Event()
        self.is_open.set()
        self.met: threading.Event | None = None
        """Set when a message passes while a fault strikes all connections."""

    def open(self) -> None:
        """Deliver the held messages, and stop cutting replies."""
        self.cuts.clear()
        self.cuts_all = self.met = None
        self.is_open.set()

    def cut_of(self, number: object) -> int | None:
        """Return how many bytes of this message to deliver before a reset; None for no reset."""
        return self.cuts.get(number, self.cuts_all)


class Connection:
    """A client's connection to the proxy, and the matching connection to the server."""

    def __init__(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self.client = client
        self.server = server
        self.up: Direction = Direction()
        self.down: Direction = Direction()

    def reset(self) -> None:
        """Reset both ends."""
        self.reset_client()
        _reset(self.server)

    def reset_client(self) -> None:
        """Reset only the client's end."""
        _reset(self.client)


def _reset(writer: asyncio.StreamWriter) -> None:
    sock = writer.get_extra_info("socket")
    if sock is not None and sock.fileno() >= 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    writer.transport.abort()


@dataclass(frozen=True)
class Message:
    """One message in one direction. `number` is the same in a request and in its reply."""

    data: bytes
    number: object = None
    is_ruled: bool = True
    """Whether rules apply to this message.

    Rules do not apply to handshakes, whose form differs from that of requests.
    """


Division = Callable[[asyncio.StreamReader], AsyncGenerator[Message, None]]
"""Splits a stream into messages."""

Which = bytes | Callable[[Any], bool]
"""Selects the requests that contain the bytes, or those for which the function returns true."""


async def by_chunk(stream: asyncio.StreamReader) -> AsyncGenerator[Message, None]:
    """Treat each chunk of data that arrives as one message."""
    while data := await stream.read(65536):
        yield Message(data)


@dataclass
class Rule:
    """The effect on a connection when a matching request arrives."""

    which: Callable[[Any], bool]
    act: Callable[[Connection, Message], None]
    to_skip: int
    left: float
    met: threading.Event

    def applies_to(self, request: Message) -> bool:
        """Return whether the rule acts on this request; if it does, count the request."""
        if self.left <= 0 or not self.which(request):
            return False
        if self.to_skip:
            self.to_skip -= 1
            return False
        self.left -= 1
        return True


class Proxy:
    """A proxy in front of a server, which is on this machine unless `host` names another.

    A client that connects before the server listens is kept waiting for up to `listens_within`
    seconds.
    """

    def __init__(
        self,
        port: int,
        *,
        host: str = "127.0.0.1",
        scheme: str = "tcp",
        division: Division = by_chunk,
        listens_within: float = 0.0,
    ) -> None:
        self._target = host, port
        self._scheme = scheme
        self._division = division
        self._listens_within = listens_within
        self._rules: list[Rule] = []
        self._strikes: list[Callable[[Connection], None]] = []
        self._connections: set[Connection] = set()
        self._is_refusing = False
        self._delay = 0.0
        self._cutting: asyncio.TimerHandle | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = self._on_loop(asyncio.start_server, self._serve, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        self.address: str = f"127.0.0.1:{self.port}"
        self.url: str = f"{self._scheme}://{self.address}"
        return self

    def __exit__(self, *_: object) -> None:
        self._on_loop(self._close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # -- faults on single requests ---------------------------------------------------------
    #
    # Each method acts on `times` matching requests, from the `nth` on, and returns an event that is
    # set when the first of these requests has arrived.

    def lose_reply_to(self, which: Which, *, times: float = 1, nth: int = 1) -> threading.Event:
        """Deliver the request, and from then on drop all replies on its connection."""

        def act(one: Connection, _: Message) -> None:
            one.down.is_dropped = True

        return self._rule(which, act, times, nth)

    def cut_reply_to(
        self, which: Which, *, after: int = 0, times: float = 1, nth: int = 1
    ) -> threading.Event:
        """Deliver the request and `after` bytes of its reply, then reset the connection.

        The reply proves that the request was carried out, but the client does not receive all of
        it.
        """

        def act(one: Connection, request: Message) -> None:
            one.down.cuts[request.number] = after

        return self._rule(which, act, times, nth)

    def hold_requests(self, which: Which, *, times: float = 1, nth: int = 1) -> threading.Event:
        """Hold the request, and everything after it on its connection."""
        return self._rule(which, lambda one, _: one.up.is_open.clear(), times, nth)

    def hold_replies(self, which: Which, *, times: float = 1, nth: int = 1) -> threading.Event:
        """Deliver the request, and from then on hold all replies on its connection."""
        return self._rule(which, lambda one, _: one.down.is_open.clear(), times, nth)

    def reset_on(self, which: Which, *, times: float = 1, nth: int = 1) -> threading.Event:
        """Reset the connection instead of delivering the request."""

        def act(one: Connection, _: Message) -> None:
            one.reset()
            one.up.is_dropped = True

        return self._rule(which, act, times, nth)

    def inject_before_reply_to(
        self, which: Which, words: bytes, *, times: float = 1, nth: int = 1
    ) -> threading.Event:
        """Deliver the request, and send these bytes before the server's own reply."""

        def act(one: Connection, _: Message) -> None:
            one.client.write(words)

        return self._rule(which, act, times, nth)

    def refuse_after(self, which: Which) -> threading.Event:
        """Deliver the request, then refuse new connections until `accept`."""

        def act(_: Connection, __: Message) -> None:
            self._is_refusing = True

        return self._rule(which, act, 1, 1)

    def let_through(self) -> None:
        """Deliver all held messages, even if their client has gone; remove all rules."""
        self._rules.clear()
        self._on_loop(self._open_all)

    def reset_and_let_through(self) -> None:
        """Reset all connections, so that the held messages are lost, and stop holding messages."""
        self.reset()
        self.let_through()

    # -- faults on all connections ---------------------------------------------------------

    def delay(self, seconds: float) -> None:
        """From now on, delay every message in either direction by this many seconds."""
        self._delay = seconds

    # Each of the next five methods also acts on messages already under way and on later
    # connections, until `let_through`. The returned event is set when the first message is
    # affected.

    def hold_all_requests(self) -> threading.Event:
        """Hold everything on its way to the server."""
        return self._strike(lambda one: one.up, lambda up: up.is_open.clear())

    def hold_all_replies(self) -> threading.Event:
        """Hold everything on its way to the client, including replies to earlier requests."""
        return self._strike(lambda one: one.down, lambda down: down.is_open.clear())

    def lose_all_requests(self) -> threading.Event:
        """Drop everything on its way to the server."""
        return self._strike(lambda one: one.up, lambda up: setattr(up, "is_dropped", True))

    def lose_all_replies(self) -> threading.Event:
        """Drop everything on its way to the client, including replies to earlier requests."""
        return self._strike(lambda one: one.down, lambda down: setattr(down, "is_dropped", True))

    def cut_all_replies(self, *, after: int) -> threading.Event:
        """Deliver `after` bytes of the next reply on a connection, then reset the connection."""
        return self._strike(lambda one: one.down, lambda down: setattr(down, "cuts_all", after))

    def reset(self) -> None:
        """Reset all connections."""
        self._on_loop(self._reset_all)

    def refuse(self) -> None:
        """Reset all connections, and reset each new connection at once."""
        self._is_refusing = True
        self.reset()

    def accept(self) -> None:
        """Accept new connections again."""
        self._is_refusing = False

    def cut(self, *, told: bool = False, after: float = 0.0) -> None:
        """Deliver nothing more in either direction, without closing the connections.

        If `told`, the clients' ends are reset, and the server does not notice. With `after`, this
        happens so many seconds later, unless the proxy is mended before.
        """

        async def cut() -> None:
            if after:
                self._cutting = self._loop.call_later(after, self._cut_all, told)
            else:
                self._cut_all(told)

        self._on_loop(cut)

    def mend(self) -> None:
        """Forward messages again; messages that were under way when the proxy was cut are lost."""
        self.reset()
        self.let_through()
        eventually(lambda: not self.connections, what="the old connections are gone")
        self.accept()

    def forward_to(self, port: int) -> None:
        """Forward new connections to another port of the same host."""
        self._target = self._target[0], port

    @property
    def is_refusing(self) -> bool:
        """Whether new connections are refused, by `refuse` or by `cut`."""
        return self._is_refusing

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._connections)

    # -- implementation --------------------------------------------------------------------

    def _rule(
        self, which: Which, act: Callable[[Connection, Message], None], times: float, nth: int
    ) -> threading.Event:
        met = threading.Event()
        matches = (lambda one: which in one.data) if isinstance(which, bytes) else which
        self._rules.append(Rule(matches, act, nth - 1, times, met))
        return met

    def _strike(
        self, direction_of: Callable[[Connection], Direction], act: Callable[[Direction], None]
    ) -> threading.Event:
        met = threading.Event()

        def strike(one: Connection) -> None:
            act(direction_of(one))
            direction_of(one).met = met

        async def strike_all() -> None:
            self._strikes.append(strike)
            for one in self._connections:
                strike(one)

        self._on_loop(strike_all)
        return met

    def _on_loop(self, function: Callable[..., Awaitable[Any]], *arguments: object) -> Any:
        async def work() -> Any:
            return await function(*arguments)

        return asyncio.run_coroutine_threadsafe(work(), self._loop).result(10)

    def _cut_all(self, told: bool) -> None:  # noqa: FBT001 - call_later takes no keywords
        self._is_refusing = True
        for one in self._connections:
            one.up.is_open.clear()
            one.down.is_open.clear()
            if told:
                one.reset_client()

    async def _open_all(self) -> None:
        if self._cutting is not None:
            self._cutting.cancel()
        self._strikes.clear()
        for one in self._connections:
            one.up.open()
            one.down.open()

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
        target = self._target
        try:
            answers, server = await self._connect()
        except OSError:
            client.transport.abort()
            return
        if self._is_refusing or target != self._target:
            client.transport.abort()
            server.transport.abort()
            return
        one = Connection(client, server)
        self._connections.add(one)
        for strike in self._strikes:
            strike(one)
        try:
            await asyncio.gather(
                self._pump(reader, server, one, one.up), self._pump(answers, client, one, one.down)
            )
        finally:
            self._connections.discard(one)
            client.close()
            server.close()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        deadline = self._loop.time() + self._listens_within
        while True:
            try:
                return await asyncio.open_connection(*self._target)
            except OSError:
                if self._loop.time() >= deadline:
                    raise
                await asyncio.sleep(0.02)

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        one: Connection,
        direction: Direction,
    ) -> None:
        try:
            async with aclosing(self._division(reader)) as messages:
                async for message in messages:
                    if direction is one.up and message.is_ruled:
                        self._apply_rules(one, message)
                    if direction.met is not None:
                        direction.met.set()
                    if self._delay:
                        await asyncio.sleep(self._delay)
                    await direction.is_open.wait()
                    if direction.is_dropped:
                        continue
                    cut = direction.cut_of(message.number) if message.is_ruled else None
                    writer.write(message.data[:cut])
                    await writer.drain()
                    if cut is not None:
                        one.reset()
                        return
            # While the proxy is cut, it does not even pass on the end of the stream.
            await direction.is_open.wait()
            writer.close()
        except OSError:
            await direction.is_open.wait()
            one.reset()

    def _apply_rules(self, one: Connection, request: Message) -> None:
        for rule in self._rules:
            if rule.applies_to(request):
                rule.act(one, request)
                rule.met.set()
