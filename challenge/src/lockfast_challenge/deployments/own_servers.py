"""Servers that the challenge starts, and the proxies in front of them."""

from __future__ import annotations

import re
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Self

from lockfast_challenge.servers.proxy import Message, Proxy, by_chunk
from lockfast_challenge.servers.server import Started

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncGenerator, Callable, Mapping, Sequence

    from lockfast_challenge.faults.fault import Fault
    from lockfast_challenge.outcome import Exemption
    from lockfast_challenge.servers.proxy import Division


# Each client has its own proxy in front of every server address.

ServerAddress = tuple[str, int]
"""Host and port."""

ADDRESSES_IN_REPLIES = re.compile(
    rb"(127\.0\.0\.1(?:\r\n\$4\r\nport)?(?:\r\n\$5\r\n|\r\n:|:| ))(\d{5})\b"
)
"""Matches server addresses in Redis replies.

Host and port are two strings or two fields in a Sentinel's reply, and a string and a number in a
slot map. They are joined by a colon in a redirect, and by a space in a failover notification.
"""


class Proxies:
    """The proxies of each client, made on first use and closed together."""

    def __init__(
        self, places: Callable[[], Sequence[ServerAddress]], *, announces_addresses: bool = False
    ) -> None:
        self._places = places
        self._announces_addresses = announces_addresses
        self._found: dict[int, list[Proxy]] = {}
        self._stack = ExitStack()

    def of(self, client: int) -> list[Proxy]:
        """Return the proxies of a client, in the order of the server addresses."""
        if client not in self._found:
            self._found[client] = self._made()
        return self._found[client]

    def _made(self) -> list[Proxy]:
        ports: dict[bytes, bytes] = {}
        division: Division = (
            partial(_with_proxy_addresses, ports) if self._announces_addresses else by_chunk
        )
        made = []
        for host, port in self._places():
            client_proxy = Proxy(port, host=host, division=division)
            made.append(self._stack.enter_context(client_proxy))
            ports[b"%d" % port] = b"%d" % client_proxy.port
        return made

    def all(self) -> list[Proxy]:
        """Return the proxies of all clients so far."""
        return [client_proxy for each in self._found.values() for client_proxy in each]

    def close(self) -> None:
        """Close all proxies; `of` makes new ones afterwards."""
        self._stack.close()
        self._found.clear()


async def _with_proxy_addresses(
    ports: Mapping[bytes, bytes], stream: asyncio.StreamReader
) -> AsyncGenerator[Message, None]:
    """Replace server addresses in replies with the addresses of the client's own proxies.

    Ports of servers and proxies have five digits, like every port that the kernel assigns, so no
    length prefix changes.
    """
    async for message in by_chunk(stream):
        rewritten = ADDRESSES_IN_REPLIES.sub(
            lambda one: one[1] + ports.get(one[2], one[2]), message.data
        )
        yield Message(rewritten)


# The common part of all stores whose servers only this run uses.


class OwnServers(Started):
    """A deployment with its own servers, which live as long as its block."""

    store: ClassVar[str] = ""
    exemptions: ClassVar[Sequence[Exemption]] = ()
    announces_addresses: ClassVar[bool] = False
    """Whether servers send clients the addresses of other servers."""

    def __init__(self, *, ttl: float) -> None:
        self.ttl = ttl
        self._proxies = Proxies(self.places, announces_addresses=self.announces_addresses)

    # -- implemented by each store ---------------------------------------------------------

    def start_servers(self) -> None:
        """Start the servers; return once all of them serve."""
        raise NotImplementedError

    def stop_servers(self) -> None:
        """Stop all servers."""
        raise NotImplementedError

    def places(self) -> list[ServerAddress]:
        """Return the addresses of all servers that clients may connect to."""
        raise NotImplementedError

    def url_at(self, addresses: Sequence[str]) -> str:
        """Return the store's URL with these addresses, which are ordered as in `places`."""
        raise NotImplementedError

    def faults(self) -> Sequence[Fault]:
        """Return the faults of the servers, including those that cannot be made here."""
        raise NotImplementedError

    # -- the Deployment protocol -----------------------------------------------------------

    def start(self) -> Self:
        """Return once clients can connect."""
        try:
            self.start_servers()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Close the proxies and stop all servers."""
        self._proxies.close()
        self.stop_servers()

    @property
    def url(self) -> str:
        return self.url_at([f"{host}:{port}" for host, port in self.places()])

    def url_for(self, client: int) -> str:
        return self.url_at([one.address for one in self._proxies.of(client)])

    def proxies_of(self, client: int) -> Sequence[Proxy]:
        return self._proxies.of(client)
