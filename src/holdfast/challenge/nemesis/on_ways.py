"""What is done to the way of one client, by the proxies on it: held, lost, late, cut, reset.

What is held goes on its way when the fault is over, and so comes late: an order that the store
carries out after its client gave up on it, or an answer to somebody who has long been told no.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.challenge.fault import Draw, Role
    from holdfast.challenge.servers.proxy import Proxy

HELD = (1.05, 1.6)
"""In ttls: longer than a lease lasts that is not renewed."""
BRIEFLY = (0.06, 0.6)
"""Long enough that whoever is asked has answered, and short enough to strike often."""
ALWAYS = float("inf")


class OnWay:
    """One kind, made of what is done to each proxy on the way of its victim, and what undoes it."""

    is_destructive = False

    def __init__(
        self,
        kind: str,
        role: Role,
        ways: Callable[[int], Sequence[Proxy]],
        *,
        lengths: tuple[float, float],
        begins: Callable[[Proxy, Draw], object],
        ends: Callable[[Proxy], None],
    ) -> None:
        self.kind = kind
        self.role: Role | None = role
        self.lengths = lengths
        self._ways = ways
        self._begins = begins
        self._ends = ends
        self._struck: list[Proxy] = []
        self.lacks = "" if ways(0) else "it needs a proxy on the way of each client"

    def begin(self, draw: Draw, victim: int | None) -> str:
        """See the protocol."""
        client = draw.anybody if victim is None else victim
        for way in self._ways(client):
            self._struck.append(way)
            self._begins(way, draw)
        return f"the way of client {client}"

    def end(self) -> None:
        """See the protocol."""
        while self._struck:
            self._ends(self._struck.pop())


def way_faults(ways: Callable[[int], Sequence[Proxy]]) -> list[OnWay]:
    """Return what can be done to the ways of clients; `ways` gives the proxies of each."""

    def held(kind: str, role: Role, lengths: tuple[float, float]) -> list[OnWay]:
        """Return each way alone, let through late at its end or _cut."""
        directions = (("requests", _hold_requests), ("replies", _hold_replies))
        ends = (("", _let_through), ("-then-cut", _lose_what_is_held))
        return [
            OnWay(
                f"{kind}-{direction}-held{suffix}",
                role,
                ways,
                lengths=lengths,
                begins=begins,
                ends=end,
            )
            for direction, begins in directions
            for suffix, end in ends
        ]

    def lost(
        kind: str, begins: Callable[[Proxy, Draw], object], ends: Callable[[Proxy], None]
    ) -> OnWay:
        return OnWay(kind, "holder", ways, lengths=HELD, begins=begins, ends=ends)

    return [
        *held("holder", "holder", HELD),
        *held("asker", "asker", BRIEFLY),
        *held("waiter", "waiter", HELD),
        lost("holder-cut-off", _cut, _mend),
        lost("holder-requests-lost", _lose_requests, _lose_what_is_held),
        lost("holder-replies-lost", _lose_replies, _lose_what_is_held),
        OnWay("waiter-refused", "waiter", ways, lengths=HELD, begins=_refuse, ends=_accept),
        OnWay(
            "reset-in-mid-reply",
            "asker",
            ways,
            lengths=BRIEFLY,
            begins=_cut_replies,
            ends=_let_through,
        ),
        OnWay("delay", "anybody", ways, lengths=(1.0, 3.0), begins=_delay, ends=_hurry),
    ]


def _hold_requests(way: Proxy, _: Draw) -> object:
    return way.hold_requests(_whatever, times=ALWAYS)


def _hold_replies(way: Proxy, _: Draw) -> object:
    return way.hold_replies(_whatever, times=ALWAYS)


def _lose_requests(way: Proxy, _: Draw) -> object:
    return way.lose_requests(_whatever, times=ALWAYS)


def _lose_replies(way: Proxy, _: Draw) -> object:
    return way.lose_reply_to(_whatever, times=ALWAYS)


def _cut(way: Proxy, _: Draw) -> None:
    way.cut()


def _refuse(way: Proxy, _: Draw) -> None:
    way.refuse()


def _cut_replies(way: Proxy, draw: Draw) -> object:
    return way.cut_reply_to(_whatever, after=int(8 * draw.strength), times=ALWAYS)


def _delay(way: Proxy, draw: Draw) -> None:
    way.delay(0.001 + 0.05 * draw.strength)


def _let_through(way: Proxy) -> None:
    way.let_through()


def _lose_what_is_held(way: Proxy) -> None:
    way.lose_what_is_held()


def _mend(way: Proxy) -> None:
    way.mend()


def _accept(way: Proxy) -> None:
    way.accept()


def _hurry(way: Proxy) -> None:
    way.delay(0.0)


def _whatever(_: object) -> bool:
    return True
