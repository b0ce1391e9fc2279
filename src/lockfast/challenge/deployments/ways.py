"""The ways of clients to a store: a proxy before each of its addresses, for each client its own."""

from __future__ import annotations

import re
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from lockfast.challenge.servers.proxy import Message, Proxy, as_it_comes

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncGenerator, Callable, Mapping, Sequence

    from lockfast.challenge.servers.proxy import Division

Place = tuple[str, int]
"""Host and port."""

TOLD = re.compile(rb"(127\.0\.0\.1(?:\r\n\$4\r\nport)?(?:\r\n\$5\r\n|\r\n:|:| ))(\d{5})\b")
"""How Redis says where somebody is: Sentinels by two strings, or two fields, a map of slots by a
string and a number, who redirects by a colon, who tells of a failover by a space."""


class Ways:
    """Made for a client when it is asked for; all of them end together."""

    def __init__(self, places: Callable[[], Sequence[Place]], *, are_told: bool = False) -> None:
        self._places = places
        self._are_told = are_told
        self._found: dict[int, list[Proxy]] = {}
        self._stack = ExitStack()

    def of(self, client: int) -> list[Proxy]:
        """Return the proxies of a client, in the order of the places."""
        if client not in self._found:
            self._found[client] = self._made()
        return self._found[client]

    def _made(self) -> list[Proxy]:
        ports: dict[bytes, bytes] = {}
        division: Division = partial(_told_of, ports) if self._are_told else as_it_comes
        made = []
        for host, port in self._places():
            way = Proxy(port, host=host, division=division)
            made.append(self._stack.enter_context(way))
            ports[b"%d" % port] = b"%d" % way.port
        return made

    def all(self) -> list[Proxy]:
        """Return those of all clients that came until now."""
        return [way for each in self._found.values() for way in each]

    def close(self) -> None:
        """End all of them; who asks afterwards gets new ones."""
        self._stack.close()
        self._found.clear()


async def _told_of(
    ports: Mapping[bytes, bytes], stream: asyncio.StreamReader
) -> AsyncGenerator[Message, None]:
    """Let the client hear of its proxies wherever it is told where a server is.

    Both ports have five digits, as all that the kernel gives: no length before them changes.
    """
    async for message in as_it_comes(stream):
        told = TOLD.sub(lambda one: one[1] + ports.get(one[2], one[2]), message.data)
        yield Message(told)
