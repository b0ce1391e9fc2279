"""Blocking calls to a transport of either flavour, so that each test is written only once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from both_flavours import Flavour

from lockfast.backends.etcd import address
from lockfast.backends.etcd._async.members import AsyncMembers
from lockfast.backends.etcd._async.watcher import AsyncWatcher
from lockfast.backends.etcd._sync import watcher
from lockfast.backends.etcd._sync.members import Members
from lockfast.backends.etcd.replies import Watched, read_reply
from lockfast.core.descriptor import masked
from lockfast.core.server_options import server_options

PATIENCE = 20.0
"""A timeout in seconds that no answered request reaches."""


class OpenWire:
    """The transport to a cluster."""

    def __init__(self, flavour: Flavour, url: str, **options: Any) -> None:
        self.flavour = flavour
        where = masked(url)
        ours = server_options(options, accepted=address.OPTIONS, what="etcd://", where=where)
        place = address.of_url(url, where=where, namespace="test", options=ours)
        kind = Members if flavour.name == "sync" else AsyncMembers
        self.transport = flavour.call(kind, place, clock=flavour.clock)

    def ask(self, request: Any, *, within: float = PATIENCE) -> Any:
        """Return the reply to a request."""
        return self.flavour.call(
            self.transport.ask, request, deadline=self.flavour.clock.now() + within
        )

    def begin(self, request: Any, *, within: float = PATIENCE) -> Future[Any]:
        """Send a request in the background of the test."""
        return self.flavour.start(self.ask, request, within=within)

    def watch(self) -> Watcher:
        """Return a stream for watches."""
        return Watcher(self)

    def is_left(self) -> bool:
        """Return whether no connection is kept for another call."""
        is_sync = self.flavour.name == "sync"
        return not any(
            one._idle._idle if is_sync else one._connections for one in self.transport._members
        )

    def close(self) -> None:
        self.flavour.call(self.transport.close)


class Watcher:
    """A stream for watches, and the messages received on it."""

    def __init__(self, one: OpenWire) -> None:
        self._flavour = one.flavour
        self.heard: list[Watched] = []
        deadline = one.flavour.clock.now() + PATIENCE
        self.stream = one.flavour.call(one.transport.watch, self._on_message, deadline=deadline)

    def _on_message(self, message: bytes) -> None:
        self.heard.append(read_reply(Watched, message))

    def send(self, message: bytes) -> bool:
        """Send a message that begins or ends a watch."""
        return self._flavour.call(self.stream.send, message)

    def until(self, has_come: Callable[[list[Watched]], object]) -> list[Watched]:
        """Return all received messages, once `has_come` is true of them."""
        deadline = self._flavour.clock.now() + PATIENCE
        while not has_come(self.heard):
            now = self._flavour.clock.now()
            assert now < deadline, self.heard
            assert self._flavour.call(self.stream.listen, until=now + 0.05), self.stream.end
        return self.heard

    def listens(self) -> bool:
        """Return whether the stream is still open."""
        until = self._flavour.clock.now() + 0.05
        return self._flavour.call(self.stream.listen, until=until)

    def close(self) -> None:
        self._flavour.call(self.stream.close)


class SessionWatches:
    """The watcher of a session."""

    def __init__(self, transport: OpenWire) -> None:
        kind = watcher.Watcher if transport.flavour.name == "sync" else AsyncWatcher
        self._flavour = transport.flavour
        self.lost = 0
        self.watcher = transport.flavour.call(
            kind, transport.transport, clock=transport.flavour.clock, lost=self._lose
        )

    def _lose(self) -> None:
        self.lost += 1

    def watch(self, key: bytes, heard: Callable[[Watched | None], None]) -> None:
        deadline = self._flavour.clock.now() + PATIENCE
        self._flavour.call(self.watcher.watch, key, heard, since=0, deadline=deadline)

    def close(self) -> None:
        self._flavour.call(self.watcher.close)
