"""Clients that lack one of the defences against a deposed leader: a trial has to find them out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from both_flavours import Flavour
from fault_scene import Scene

from lockfast.backends.etcd import addresses, answers, requests
from lockfast.backends.etcd.answers import Header
from lockfast.backends.etcd.orphans import Orphans
from lockfast.backends.etcd.requests import Request
from lockfast.backends.etcd.standing import Standing

Change = Callable[[Any, Request[Any]], tuple[Any, Request[Any]]]
"""Returns which wire is asked instead of this one, and what instead of the request."""


class AnyHeader(Header):
    """Confirms whatever was answered before it."""

    def confirms(self, earlier: Header) -> bool:
        del earlier
        return True


class Believed(answers.Ranged):
    """A read that is believed, whoever has answered it."""

    @staticmethod
    def read(data: bytes) -> answers.Ranged:
        found = answers.answer(answers.Ranged, data)
        return found._replace(header=AnyHeader(*found.header))


class Word(answers.Kept):
    """A read that is taken for a renewal."""

    @staticmethod
    def read(data: bytes) -> answers.Kept:
        return answers.Kept(answers.answer(answers.Ranged, data).header, ttl=1)


for _kind in (Believed, Word):
    answers._READINGS[_kind] = _kind.read  # type: ignore[assignment]


def by_the_rule(wire: Any, request: Request[Any]) -> tuple[Any, Request[Any]]:
    """Lack nothing."""
    return wire, request


def by_keep_alives_alone(wire: Any, request: Request[Any]) -> tuple[Any, Request[Any]]:
    """Read the session's key as the member knows it, without asking a quorum."""
    return wire, _of_the_member(wire) if _reads_session(wire, request) else request


def by_reads_elsewhere(wire: Any, request: Request[Any]) -> tuple[Any, Request[Any]]:
    """Read the session's key at another member than the one that was to keep it alive."""
    if _reads_session(wire, request):
        return wire.elsewhere, replace(request, answer=Believed)
    return wire, request


def by_the_members_word(wire: Any, request: Request[Any]) -> tuple[Any, Request[Any]]:
    """Take it for a renewal that a member knows the session's key."""
    if request.answer is answers.Kept:
        return wire, replace(_of_the_member(wire), answer=Word)
    return wire, _of_the_member(wire) if _reads_session(wire, request) else request


def _reads_session(wire: Any, request: Request[Any]) -> bool:
    return bool(wire._guard.key) and request == requests.range_(wire._guard.key)


def _of_the_member(wire: Any) -> Request[Any]:
    return requests.range_(wire._guard.key, serializable=True)


class LeftToEtcd(Orphans):
    """Lets nobody remove a hold without its claim, however long it was seen: etcd has to."""

    def look(self, line: Iterable[Standing], *, now: float) -> list[Standing]:
        super().look(line, now=now)
        return []


def unseen() -> Orphans:
    """Let a hold without its claim count for nothing."""
    return Orphans(grace=lambda _: 0.0)


@dataclass(frozen=True)
class Defences:
    """What clients go by: when a session is proven, and how they wait for a hold."""

    proof: Change = by_the_rule
    orphans: Callable[[], Orphans] = Orphans

    def __str__(self) -> str:
        return f"{self.proof.__name__}, {self.orphans.__name__}"


AS_THEY_ARE = Defences()
BY_ETCD_ALONE = Defences(orphans=LeftToEtcd)
WITHOUT_WAITING = Defences(orphans=unseen)


class Trial(Scene):
    """A holder and one who waits behind it, with their defences; `elsewhere` is another member."""

    def __init__(self, flavour: Flavour, defences: Defences, *, elsewhere: str) -> None:
        super().__init__(flavour)
        self.defences = defences
        self._elsewhere = elsewhere

    def open(self, url: str, **options: Any) -> Any:
        locks = super().open(url, **options)
        backend = getattr(locks, "_inner", locks)._client.backend
        backend._orphans = self.defences.orphans()
        if self.defences.proof is not by_the_rule:
            backend._new_wire = _new_wire_of(backend, self.defences.proof, self._reach)
        return locks

    def _reach(self, kind: type[Any], **options: Any) -> Any:
        """Return a wire of which only its members are used, and close them in the end."""
        place = addresses.of_url(self._elsewhere, where="elsewhere", namespace="x", options={})
        wire = kind(place, **options)
        self.flavour.close_after_clients(_Members(self.flavour, wire._members))
        return wire

    def overlaps(self, within: float) -> bool:
        """Look at the holder in the moment when the next one has the lock."""
        self.waiter.result(within)
        return self.lease.is_trusted


class _Members:
    """The members that a wire asks, closed as a client is."""

    def __init__(self, flavour: Flavour, members: Any) -> None:
        self._flavour = flavour
        self._members = members

    def close(self) -> None:
        self._flavour.call(self._members.close)

    aclose = close


def _new_wire_of(backend: Any, change: Change, reach: Callable[..., Any]) -> Callable[..., Any]:
    def new_wire(ttl: float, changed: Callable[[], None]) -> Any:
        kind = type(type(backend)._new_wire(backend, ttl, changed))

        class Lacking(kind):  # type: ignore[misc, valid-type]
            def ask_once(self, request: Request[Any], **options: Any) -> Any:
                wire, request = change(self, request)
                return kind.ask_once(wire, request, **options)

        options = {"orphans": backend._orphans, "ttl": ttl, "clock": backend._clock}
        wire = Lacking(backend._address, changed=changed, **options)
        wire.elsewhere = reach(kind, changed=changed, **options)
        return wire

    return new_wire
