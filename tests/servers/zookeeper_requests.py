"""Parses ZooKeeper requests for the proxy: where each request ends, and what it does."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from functools import partial

from lockfast_challenge.servers.proxy import Message, Proxy

CREATES = (1, 15, 19, 21)
"""create, create2, createContainer and createTTL, as the protocol numbers them."""

DELETE = 2
SYNC = 9
GET_CHILDREN = 12
EPHEMERAL_SEQUENTIAL = b"\0\0\0\3"
"""The flags at the end of a request that creates an ephemeral sequential node."""


@dataclass(frozen=True)
class Request(Message):
    """One request on its way to the server, or a reply, which has no opcode."""

    @property
    def opcode(self) -> int:
        """The opcode of the request."""
        [found] = struct.unpack_from(">i", self.data, 8)
        return found

    def creates_a_claim(self) -> bool:
        """Whether the request creates an ephemeral sequential node."""
        return self.opcode in CREATES and self.data.endswith(EPHEMERAL_SEQUENTIAL)

    def deletes_a_claim_of(self, name: str) -> bool:
        """Return whether the request deletes a node below the node of this name."""
        return self.opcode == DELETE and f"{name}/".encode() in self.data


async def frames(stream: asyncio.StreamReader) -> AsyncGenerator[Message, None]:
    """Split a stream into messages; a length precedes each, and most begin with a number."""
    try:
        yield Message(await _frame(stream), is_ruled=False)  # the handshake has no header
        while True:
            data = await _frame(stream)
            [number] = struct.unpack_from(">i", data, 4)
            yield Request(data, number)
    except asyncio.IncompleteReadError as end:
        # A four-letter word, or the end of the connection.
        yield Message(end.partial, is_ruled=False)


async def _frame(stream: asyncio.StreamReader) -> bytes:
    size = await stream.readexactly(4)
    return size + await stream.readexactly(struct.unpack(">i", size)[0])


ZooKeeperProxy = partial(Proxy, scheme="zookeeper", division=frames)
"""A proxy in front of one server that can tell requests and replies apart."""
