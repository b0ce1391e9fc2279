"""Locks in ZooKeeper: the backend's capabilities, its address, and its transport."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from lockfast.backends.sessions._async.backend import AsyncSessionsBackend
from lockfast.backends.zookeeper import address
from lockfast.backends.zookeeper._async.transport import AsyncZooKeeperTransport
from lockfast.backends.zookeeper.nodes import NameNodes
from lockfast.core.naming import checked_namespace
from lockfast.model import Capabilities, TokenQuality

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockfast.backends.zookeeper.address import Address
    from lockfast.runtime.clock import Clock


class AsyncZooKeeperBackend(AsyncSessionsBackend):
    """Locks in a ZooKeeper ensemble: one session for all claims of a client."""

    capabilities = Capabilities(
        fair=True,
        shared=True,
        push_wakeup=True,
        explicit_owner=False,
        lock_delay=False,
        token_quality=TokenQuality.CONSENSUS,
        ends_by="session",
        sequencers=True,
    )
    min_ttl = 0.05
    options = address.OPTIONS

    def __init__(
        self,
        *,
        url: str,
        location: str,
        clock: Clock,
        namespace: str = "lockfast",
        **options: object,
    ) -> None:
        checked_namespace(namespace)
        self._set_address(
            address.of_url(url, where=location, namespace=namespace, options=options), clock
        )

    @classmethod
    def from_client(cls, client: object, *, clock: Clock, namespace: str = "lockfast") -> Self:
        """Return locks in the ensemble that a kazoo client connects to.

        Only the client's settings are read. The client is never closed, and its session is not
        used.
        """
        self = cls.__new__(cls)
        self._set_address(address.of_client(client, namespace=checked_namespace(namespace)), clock)
        return self

    def _set_address(self, place: Address, clock: Clock) -> None:
        self._address = place
        self._doors = NameNodes(place)
        self._set_up(location=place.where, clock=clock)

    def _new_transport(self, ttl: float, changed: Callable[[], None]) -> AsyncZooKeeperTransport:
        return AsyncZooKeeperTransport(self._doors, ttl=ttl, clock=self._clock, changed=changed)
