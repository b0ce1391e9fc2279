"""A TCP proxy that fails on command, between a client and a server."""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from servers.proxy import Connection, Direction, Proxy

CREATES = (1, 15, 19, 21)
"""create, create2, createContainer and createTTL, as the protocol numbers them."""

DELETE = 2
SYNC = 9
GET_CHILDREN = 12
EPHEMERAL_SEQUENTIAL = b"\0\0\0\3"
"""How the creation of such a node ends: its flags."""


@dataclass(frozen=True)
class Request:
    """One request on its way to the server."""

    xid: int
    opcode: int
    body: bytes

    def creates_a_claim(self) -> bool:
        """Whether it makes an ephemeral sequential node."""
        return self.opcode in CREATES and self.body.endswith(EPHEMERAL_SEQUENTIAL)

    def deletes_a_claim_of(self, name: str) -> bool:
        """Whether it deletes a node below the name's own."""
        return self.opcode == DELETE and f"{name}/".encode() in self.body


@dataclass
class _Rule:
    matches: Callable[[Request], bool]
    is_held: bool
    left: float
    met: threading.Event


class ZooKeeperProxy(Proxy):
    """Stands before one server, and knows requests and replies apart."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self._doomed: dict[Connection, set[int]] = {}
        self._our_rules: list[_Rule] = []

    def __enter__(self) -> Self:
        super().__enter__()
        self.address = f"127.0.0.1:{self.port}"
        self.url = f"zookeeper://{self.address}"
        return self

    def lose_answer_to(
        self, matches: Callable[[Request], bool], *, times: float = 1
    ) -> threading.Event:
        """Deliver such a request; when the server has answered it, reset the connection.

        The answer proves that it was done, and nobody hears it. Set when that has happened.
        """
        return self._add(matches, is_held=False, times=times)

    def hold(self, matches: Callable[[Request], bool], *, times: float = 1) -> threading.Event:
        """Keep such a request on its way, and all that follows on its connection."""
        return self._add(matches, is_held=True, times=times)

    def lose_what_is_held(self) -> None:
        """Reset all connections with what is on its way there, and hold nothing more."""
        self._our_rules.clear()
        self.reset()

    def _add(
        self, matches: Callable[[Request], bool], *, is_held: bool, times: float
    ) -> threading.Event:
        rule = _Rule(matches, is_held, times, threading.Event())
        self._our_rules.append(rule)
        return rule.met

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        one: Connection,
        direction: Direction,
    ) -> None:
        try:
            is_first = True  # the greetings have no header
            while True:
                size = await reader.readexactly(4)
                frame = await reader.readexactly(struct.unpack(">i", size)[0])
                if not is_first and len(frame) >= 4:
                    is_over = self._look(one, direction, frame)
                    if is_over:
                        one.reset()
                        return
                is_first = False
                await direction.is_open.wait()
                writer.write(size + frame)
                await writer.drain()
        except asyncio.IncompleteReadError as end:
            # A four-letter word, or the end of the connection.
            writer.write(end.partial)
            writer.close()
        except OSError:
            one.reset()

    def _look(self, one: Connection, direction: Direction, frame: bytes) -> bool:
        """Apply the rules; true if the connection ends here."""
        [xid] = struct.unpack_from(">i", frame)
        doomed = self._doomed.setdefault(one, set())
        if direction is one.down:
            return xid in doomed
        if len(frame) >= 8:
            request = Request(xid, struct.unpack_from(">i", frame, 4)[0], frame[8:])
            for rule in self._our_rules:
                if rule.left > 0 and rule.matches(request):
                    rule.left -= 1
                    if rule.is_held:
                        one.up.is_open.clear()
                    else:
                        doomed.add(xid)
                    rule.met.set()
        return False

    def let_through(self) -> None:
        """Deliver what is held, also if its client has gone meanwhile."""
        self._our_rules.clear()
        super().let_through()
