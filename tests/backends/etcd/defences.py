"""Clients that lack a defence against a deposed leader; a trial must detect such clients."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from both_flavours import Flavour
from fault_scene import Scene

from lockfast.backends.etcd import address, replies, requests
from lockfast.backends.etcd.line import EtcdEntry, Orphans
from lockfast.backends.etcd.replies import Header
from lockfast.backends.etcd.requests import Request

Change = Callable[[Any, Request[Any]], tuple[Any, Request[Any]]]
"""Takes a sender and a request, and returns the sender and the request to use instead."""


class AnyHeader(Header):
    """A header that confirms any earlier reply."""

    def confirms(self, earlier: Header) -> bool:
        del earlier
        return True


class Believed(replies.Ranged):
    """A read whose reply confirms any keep-alive, whichever member sent the reply."""

    @staticmethod
    def read(data: bytes) -> replies.Ranged:
        found = replies.read_reply(replies.Ranged, data)
        return found._replace(header=AnyHeader(*found.header))


class Word(replies.KeptAlive):
    """A read whose reply counts as a renewal."""

    @staticmethod
    def read(data: bytes) -> replies.KeptAlive:
        return replies.KeptAlive(replies.read_reply(replies.Ranged, data).header, ttl=1)


for _kind in (Believed, Word):
    replies._READINGS[_kind] = _kind.read  # type: ignore[assignment]


def by_the_rule(sender: Any, request: Request[Any]) -> tuple[Any, Request[Any]]:
    """Change nothing: all defences are in place."""
    return sender, request


def by_keep_alives_alone(sender: Any, request: Request[Any]) -> tuple[Any, Request[Any]]:
    """Read the session's key from the member's own state, without asking a quorum."""
    return sender, _of_the_member(sender) if _reads_session(sender, request) else request


def by_reads_elsewhere(sender: Any, request: Request[Any]) -> tuple[Any, Request[Any]]:
    """Read the session's key at a different member than the one that got the keep-alive."""
    if _reads_session(sender, request):
        return sender.elsewhere, replace(request, answer=Believed)
    return sender, request


def by_the_members_word(sender: Any, request: Request[Any]) -> tuple[Any, Request[Any]]:
    """Replace a keep-alive by a read of one member's own state, and take it for a renewal."""
    if request.answer is replies.KeptAlive:
        return sender, replace(_of_the_member(sender), answer=Word)
    return sender, _of_the_member(sender) if _reads_session(sender, request) else request


def _reads_session(sender: Any, request: Request[Any]) -> bool:
    return bool(sender.guard.key) and request == requests.range_(sender.guard.key)


def _of_the_member(sender: Any) -> Request[Any]:
    return requests.range_(sender.guard.key, serializable=True)


class LeftToEtcd(Orphans):
    """Reports no hold as overdue, so only etcd's expiry removes a hold without its claim."""

    def look(self, line: Iterable[EtcdEntry], *, now: float) -> list[EtcdEntry]:
        super().look(line, now=now)
        return []


def unseen() -> Orphans:
    """Give a hold without its claim no grace period."""
    return Orphans(grace=lambda _: 0.0)


@dataclass(frozen=True)
class Defences:
    """How clients prove a session, and how they treat a hold without its claim."""

    proof: Change = by_the_rule
    orphans: Callable[[], Orphans] = Orphans

    def __str__(self) -> str:
        return f"{self.proof.__name__}, {self.orphans.__name__}"


AS_THEY_ARE = Defences()
BY_ETCD_ALONE = Defences(orphans=LeftToEtcd)
WITHOUT_WAITING = Defences(orphans=unseen)


class Trial(Scene):
    """A holder and a waiter, with their clients' defences; `elsewhere` names the other members."""

    def __init__(self, flavour: Flavour, defences: Defences, *, elsewhere: str) -> None:
        super().__init__(flavour)
        self.defences = defences
        self._elsewhere = elsewhere

    def open(self, url: str, **options: Any) -> Any:
        locks = super().open(url, **options)
        backend = getattr(locks, "_inner", locks)._client.backend
        backend._orphans = self.defences.orphans()
        if self.defences.proof is not by_the_rule:
            backend._new_transport = _new_wire_of(backend, self.defences.proof, self._reach)
        return locks

    def _reach(self, kind: type[Any], **options: Any) -> Any:
        """Return a transport to the other members, which are closed after the clients."""
        place = address.of_url(self._elsewhere, where="elsewhere", namespace="x", options={})
        transport = kind(place, **options)
        self.flavour.close_after_clients(_Members(self.flavour, transport._members))
        return transport

    def overlaps(self, within: float) -> bool:
        """Return whether the holder still trusts its lease once the waiter has the lock."""
        self.waiter.result(within)
        return self.lease.is_trusted


class _Members:
    """The members of a transport, with the closing methods of a client."""

    def __init__(self, flavour: Flavour, members: Any) -> None:
        self._flavour = flavour
        self._members = members

    def close(self) -> None:
        self._flavour.call(self._members.close)

    aclose = close


def _new_wire_of(backend: Any, change: Change, reach: Callable[..., Any]) -> Callable[..., Any]:
    def new_transport(ttl: float, changed: Callable[[], None]) -> Any:
        kind = type(type(backend)._new_transport(backend, ttl, changed))
        options = {"orphans": backend._orphans, "ttl": ttl, "clock": backend._clock}
        transport = kind(backend._address, changed=changed, **options)
        sender = transport._requests
        sender.elsewhere = reach(kind, changed=changed, **options)._requests

        def ask_once(request: Request[Any], **options: Any) -> Any:
            chosen, request = change(sender, request)
            return type(sender).ask_once(chosen, request, **options)

        sender.ask_once = ask_once
        return transport

    return new_transport
