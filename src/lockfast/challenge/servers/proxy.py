"""A TCP proxy that fails on command: it delays, holds, drops and cuts, in either direction.

It runs on a loop in a thread of its own. What it does to a single request is told by what the
request says, so that the connecting before it is left in peace. Where a message ends only the
protocol knows: it is a function that is given to the proxy, and `as_it_comes` where one message
at a time is under way.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Self

from lockfast.challenge.eventually import eventually
from lockfast.challenge.servers.proxied import Connection, Direction


@dataclass(frozen=True)
class Message:
    """What goes one way at once. `number` is the same in a request and in its answer."""

    data: bytes
    number: object = None
    is_ruled: bool = True
    """Whether the rules look at it: not at greetings, which have another form than requests."""


Division = Callable[[asyncio.StreamReader], AsyncGenerator[Message, None]]
"""Divides a stream into its messages."""

Which = bytes | Callable[[Any], bool]
"""Which requests are meant: those that contain the bytes, or of which it is true."""


async def as_it_comes(stream: asyncio.StreamReader) -> AsyncGenerator[Message, None]:
    """Take for a message what arrives at once."""
    while data := await stream.read(65536):
        yield Message(data)


@dataclass
class Rule:
    """What happens to the connection on which such a request comes by."""

    which: Callable[[Any], bool]
    act: Callable[[Connection, Message], None]
    to_pass: int
    left: float
    met: threading.Event

    def is_met_by(self, request: Message) -> bool:
        """Whether it acts on this one."""
        if self.left <= 0 or not self.which(request):
            return False
        if self.to_pass:
            self.to_pass -= 1
            return False
        self.left -= 1
        return True


class Proxy:
    """Stands before a server, of this machine unless told otherwise.

    Where a client comes before the server listens, it is kept for so long as `listens_within`.
    """

    def __init__(
        self,
        port: int,
        *,
        host: str = "127.0.0.1",
        scheme: str = "tcp",
        division: Division = as_it_comes,
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

    # -- what a test may ask for: single requests ------------------------------------------
    # Each acts on as many such requests as `times` says, from the `nth` on, and gives an event
    # that is set when the first of them has come by.

    def lose_reply_to(self, which: Which, *, times: float = 1, nth: int = 1) -> threading.Event:
        """Deliver the request, and drop what its connection answers from then on."""

        def act(one: Connection, _: Message) -> None:
            one.down.is_dropped = True

        return self._rule(which, act, times, nth)

    def cut_reply_to(
        self, which: Which, *, after: int = 0, times: float = 1, nth: int = 1
    ) -> threading.Event:
        """Deliver the request and so many bytes of its reply, then reset the connection.

        That there is a reply proves that it was done, and nobody hears it.
        """

        def act(one: Connection, request: Message) -> None:
            one.down.cuts[request.number] = after

        return self._rule(which, act, times, nth)

    def hold_requests(self, which: Which, *, times: float = 1, nth: int = 1) -> threading.Event:
        """Keep the request, and whatever follows on its connection."""
        return self._rule(which, lambda one, _: one.up.is_open.clear(), times, nth)

    def hold_replies(self, which: Which, *, times: float = 1, nth: int = 1) -> threading.Event:
        """Deliver the request, and keep what its connection answers from then on."""
        return self._rule(which, lambda one, _: one.down.is_open.clear(), times, nth)

    def lose_requests(self, which: Which, *, times: float = 1, nth: int = 1) -> threading.Event:
        """Drop the request, and whatever follows on its connection."""

        def act(one: Connection, _: Message) -> None:
            one.up.is_dropped = True

        return self._rule(which, act, times, nth)

    def reset_on(self, which: Which, *, times: float = 1, nth: int = 1) -> threading.Event:
        """Reset the connection instead of delivering the request."""

        def act(one: Connection, _: Message) -> None:
            one.reset()
            one.up.is_dropped = True

        return self._rule(which, act, times, nth)

    def say_before_reply_to(
        self, which: Which, words: bytes, *, times: float = 1, nth: int = 1
    ) -> threading.Event:
        """Deliver the request, and say this before the server's own reply."""

        def act(one: Connection, _: Message) -> None:
            one.client.write(words)

        return self._rule(which, act, times, nth)

    def refuse_after(self, which: Which) -> threading.Event:
        """Deliver the request; let nobody connect any more, until told to accept."""

        def act(_: Connection, __: Message) -> None:
            self._is_refusing = True

        return self._rule(which, act, 1, 1)

    def let_through(self) -> None:
        """Deliver what is held, also if its client has gone meanwhile; forget all requests."""
        self._rules.clear()
        self._on_loop(self._open_all)

    def lose_what_is_held(self) -> None:
        """Reset all connections with what is on its way there, and hold nothing more."""
        self.reset()
        self.let_through()

    # -- what a test may ask for: all connections ------------------------------------------

    def delay(self, seconds: float) -> None:
        """Let every message take so long from now on, in either direction."""
        self._delay = seconds

    # Each of the next five acts on what is under way already, on those who connect later too, and
    # until it is let through. The event is set when it has met anything.

    def hold_all_requests(self) -> threading.Event:
        """Keep whatever is on its way to the server."""
        return self._strike(lambda one: one.up, lambda up: up.is_open.clear())

    def hold_all_replies(self) -> threading.Event:
        """Keep whatever is on its way to the client, also if it was asked before."""
        return self._strike(lambda one: one.down, lambda down: down.is_open.clear())

    def lose_all_requests(self) -> threading.Event:
        """Drop whatever is on its way to the server."""
        return self._strike(lambda one: one.up, lambda up: setattr(up, "is_dropped", True))

    def lose_all_replies(self) -> threading.Event:
        """Drop whatever is on its way to the client, also if it was asked before."""
        return self._strike(lambda one: one.down, lambda down: setattr(down, "is_dropped", True))

    def cut_all_replies(self, *, after: int) -> threading.Event:
        """Deliver so many bytes of the next answer on each connection, then reset it."""
        return self._strike(lambda one: one.down, lambda down: setattr(down, "cuts_all", after))

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

    def cut(self, *, told: bool = False) -> None:
        """Deliver nothing more, in either direction, and close nothing.

        If `told`, the clients hear that it ended, and whom it leads to does not.
        """

        async def cut() -> None:
            self._is_refusing = True
            for one in self._connections:
                one.up.is_open.clear()
                one.down.is_open.clear()
                if told:
                    one.reset_client()

        self._on_loop(cut)

    def mend(self) -> None:
        """Be a way again; what was under way when it was cut is gone."""
        self.reset()
        self.let_through()
        eventually(lambda: not self.connections, what="the old connections are gone")
        self.accept()

    def lead_to(self, port: int) -> None:
        """Be the way to another port of the same host, for whoever connects from now on."""
        self._target = self._target[0], port

    @property
    def is_refusing(self) -> bool:
        """Whether nobody can connect, be it cut or not."""
        return self._is_refusing

    @property
    def connections(self) -> int:
        """How many there are."""
        return len(self._connections)

    # -- how it is done --------------------------------------------------------------------

    def _rule(
        self, which: Which, act: Callable[[Connection, Message], None], times: float, nth: int
    ) -> threading.Event:
        met = threading.Event()
        matches = (lambda one: which in one.data) if isinstance(which, bytes) else which
        self._rules.append(Rule(matches, act, nth - 1, times, met))
        return met

    def _strike(
        self, way: Callable[[Connection], Direction], act: Callable[[Direction], None]
    ) -> threading.Event:
        met = threading.Event()

        def strike(one: Connection) -> None:
            act(way(one))
            way(one).met = met

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

    async def _open_all(self) -> None:
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
            await direction.is_open.wait()  # where it is cut, not even its end is heard
            writer.close()
        except OSError:
            await direction.is_open.wait()
            one.reset()

    def _apply_rules(self, one: Connection, request: Message) -> None:
        for rule in self._rules:
            if rule.is_met_by(request):
                rule.act(one, request)
                rule.met.set()
