"""TCP proxies that fail on command: between a client and a server, and between members."""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from proxy import Connection, Direction, Proxy
from zookeeper_servers import Ensemble, ZooKeeperServer, until

CREATES = (1, 15, 19, 21)
"""create, create2, createContainer and createTTL, as the protocol numbers them."""

DELETE = 2
SYNC = 9
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


class _Way(Proxy):
    """The way of a member to another's quorum port, which can be cut without a word."""

    async def _serve(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        # A leader listens only once it leads. A follower that was accepted and then reset would
        # begin another election, where one that is refused simply tries again.
        for _ in range(100):
            try:
                _, probe = await asyncio.open_connection("127.0.0.1", self._target)
            except OSError:
                await asyncio.sleep(0.02)
            else:
                probe.transport.abort()
                break
        await super()._serve(reader, client)

    def cut(self) -> None:
        """Deliver nothing more, in either direction, and close nothing."""
        self._is_refusing = True
        self._on_loop(self._close_doors)

    async def _close_doors(self) -> None:
        for one in self._connections:
            one.up.is_open.clear()
            one.down.is_open.clear()

    def mend(self) -> None:
        """Be a way again; what was under way when it was cut is gone."""
        self.reset()
        self.let_through()
        until(lambda: not self.connections, what="the old connections are gone")
        self._is_refusing = False

    @property
    def is_cut(self) -> bool:
        return self._is_refusing


class CuttableEnsemble(Ensemble):
    """An ensemble whose members can be cut from each other, while clients still reach them."""

    def __init__(self, *, settings: dict[str, object] | None = None) -> None:
        super().__init__(settings=settings)
        self._ways: dict[tuple[int, int], _Way] = {}

    def way(self, member: int, other: int, port: int) -> int:
        """Return the port of a proxy, but to each member its own."""
        if member == other:
            return port
        found = self._ways[member, other] = _Way(port)
        return found.__enter__().port

    def cut_off(self, follower: ZooKeeperServer) -> None:
        """Let a follower and its leader hear no more of each other.

        Followers connect to their leader; over their election ports they still talk.
        """
        for (member, _), way in self._ways.items():
            if self.members[member] is follower:
                way.cut()

    def heal(self) -> Self:
        """Mend all ways too, and wait until whoever was cut off has come by them."""
        cut = {member for (member, _), way in self._ways.items() if way.is_cut}
        for way in self._ways.values():
            if way.is_cut:
                way.mend()
        for member in cut:
            until(lambda member=member: self._is_back(member), what="it is back")
        return super().heal()

    def _is_back(self, member: int) -> bool:
        return self.members[member].mode() == "leader" or any(
            way.connections for (one, _), way in self._ways.items() if one == member
        )

    def stop(self) -> None:
        """End all of them, and the ways between them."""
        super().stop()
        for way in self._ways.values():
            way.__exit__()
        self._ways.clear()
