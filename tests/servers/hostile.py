"""A proxy whose server turns hostile at a chosen byte of its replies, and serves again later."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from dataclasses import dataclass
from typing import Literal

from lockfast_challenge.servers.proxy import Connection, Direction, Message, Proxy

BLOCK = 65536


@dataclass(frozen=True)
class Hostility:
    """What the server does after `after` more bytes of its replies.

    It sends `words` in place of the rest. Then it closes or resets the connection, says nothing
    more, or repeats `words` until the client leaves. By default this happens to every connection,
    new ones included, and the bytes of each are counted. With `is_once`, the bytes of all
    connections are counted together, and only the connection that carries the last of them is hit.
    """

    then: Literal["close", "reset", "silence", "flood"]
    words: bytes = b""
    after: int = 0
    is_once: bool = False


class Hostile(Proxy):
    """A proxy that serves faithfully before `turn` and after `heal`."""

    def __init__(self, port: int, *, scheme: str) -> None:
        super().__init__(port, scheme=scheme)
        self.requests: bytearray = bytearray()
        """Everything that was passed on to the server."""
        self.replies: list[int] = []
        """The lengths of the server's replies; what it sends between two requests is one reply."""
        self.has_struck: threading.Event = threading.Event()
        self._is_replying = False
        self._hostility: Hostility | None = None
        self._counted: Counter[Connection | None] = Counter()
        self._flooded: set[Connection] = set()

    def turn(self, hostility: Hostility, *, at: bytes = b"") -> None:
        """Become hostile once a request contains `at`; the bytes are counted from then on."""

        def act(*_: object) -> None:
            self._counted.clear()
            self._hostility = hostility

        async def turn() -> None:
            if at:
                self._rule(at, act, 1, 1)
            else:
                act()

        self._on_loop(turn)

    def heal(self) -> None:
        """Serve every later reply. A flood ends with its connection; a silent connection stays so.

        A server that serves again does not answer on the connections of before, so the client has
        to leave them by itself.
        """

        async def heal() -> None:
            self._hostility = None
            for one in self._flooded:
                one.reset()

        self._on_loop(heal)

    # -- implementation --------------------------------------------------------------------

    def _apply_rules(self, one: Connection, request: Message) -> None:
        self.requests += request.data
        self._is_replying = False
        super()._apply_rules(one, request)

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        one: Connection,
        direction: Direction,
    ) -> None:
        if direction is one.up:
            await super()._pump(reader, writer, one, direction)
            return
        try:
            while data := await reader.read(BLOCK):
                self._record(data)
                hostility = self._hostility
                if hostility is not None:
                    counted = None if hostility.is_once else one
                    left = hostility.after - self._counted[counted]
                    if len(data) >= left:
                        writer.write(data[:left] + hostility.words)
                        await self._strike_with(hostility, reader, one)
                        return
                    self._counted[counted] += len(data)
                writer.write(data)
                await writer.drain()
            writer.close()
        except OSError:
            one.reset()

    def _record(self, data: bytes) -> None:
        if not self._is_replying:
            self._is_replying = True
            self.replies.append(0)
        self.replies[-1] += len(data)

    async def _strike_with(
        self, hostility: Hostility, reader: asyncio.StreamReader, one: Connection
    ) -> None:
        if hostility.is_once:
            self._hostility = None
        self.has_struck.set()
        match hostility.then:
            case "close":
                one.client.close()
            case "reset":
                await one.client.drain()
                one.reset()
            case "silence":
                while await reader.read(BLOCK):
                    pass
            case "flood":
                self._flooded.add(one)
                words = hostility.words * max(1, BLOCK // len(hostility.words))
                while True:  # until the client leaves: then this raises
                    one.client.write(words)
                    await one.client.drain()
