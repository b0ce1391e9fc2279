"""Servers of our own, which nobody else uses: what all the stores have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Self

from lockfast.challenge.deployments.ways import Ways
from lockfast.challenge.servers.starting import Started

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lockfast.challenge.deployments.ways import Place
    from lockfast.challenge.fault import Fault
    from lockfast.challenge.servers.proxy import Proxy


class OwnServers(Started):
    """A deployment for as long as its block."""

    store: ClassVar[str] = ""
    documented: ClassVar[Mapping[str, str]] = {}
    """Under which kinds of fault two may hold at once, and what the store's page says of it, word
    for word."""
    are_told: ClassVar[bool] = False
    """Whether servers tell clients where others are."""

    def __init__(self, *, ttl: float) -> None:
        self.ttl = ttl
        self._ways = Ways(self.places, are_told=self.are_told)

    # -- what a store says -----------------------------------------------------------------

    def start_servers(self) -> None:
        """Return once all of them serve."""
        raise NotImplementedError

    def stop_servers(self) -> None:
        """End all of them."""
        raise NotImplementedError

    def places(self) -> list[Place]:
        """Return where clients may have to go."""
        raise NotImplementedError

    def url_at(self, addresses: Sequence[str]) -> str:
        """Return the URL of the store at these addresses, which are in the order of the places."""
        raise NotImplementedError

    def faults(self) -> Sequence[Fault]:
        """Return what can be done to the servers."""
        raise NotImplementedError

    # -- a deployment ----------------------------------------------------------------------

    def start(self) -> Self:
        """Return once clients can come."""
        try:
            self.start_servers()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End the ways and all servers."""
        self._ways.close()
        self.stop_servers()

    @property
    def url(self) -> str:
        """See the protocol."""
        return self.url_at([f"{host}:{port}" for host, port in self.places()])

    def url_for(self, client: int) -> str:
        """See the protocol."""
        return self.url_at([one.address for one in self._ways.of(client)])

    def ways(self, client: int) -> Sequence[Proxy]:
        """See the protocol."""
        return self._ways.of(client)

    def forgives(self, kind: str) -> str:
        """See the protocol."""
        return self.documented.get(kind, "")
