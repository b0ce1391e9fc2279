"""What is done to the way of one client, by the proxies on it: held, lost, late, cut, reset.

What is held goes on its way when the fault is over, and so comes late: an order that the store
carries out after its client gave up on it, or an answer to somebody who has long been told no.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Sequence

    from lockfast.challenge.fault import Draw, Role
    from lockfast.challenge.servers.proxy import Proxy

HELD = (1.05, 1.6)
"""In ttls: longer than a lease lasts that is not renewed."""
BRIEFLY = (0.06, 0.6)
"""Long enough that whoever is asked has answered, and short enough to strike often."""
IN_WAIT = 1.0
"""So many seconds at most a brief one lies in wait for a message. Most requests are answered in
less than a look at the clients takes: whoever was seen to ask has its answer already."""


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
        begins: Callable[[Proxy, Draw], threading.Event | None],
        ends: Callable[[Proxy], None],
    ) -> None:
        self.kind = kind
        self.role: Role | None = role
        self.lengths = lengths
        self._ways = ways
        self._begins = begins
        self._ends = ends
        self._struck: list[Proxy] = []
        self._met: list[threading.Event | None] = []
        self.lacks = "" if ways(0) else "it needs a proxy on the way of each client"

    def begin(self, draw: Draw, victim: int | None) -> str:
        """See the protocol."""
        client = draw.anybody if victim is None else victim
        for way in self._ways(client):
            self._struck.append(way)
            self._met.append(self._begins(way, draw))
        if self.lengths == BRIEFLY:
            self._lie_in_wait()
        return f"the way of client {client}"

    def end(self) -> str:
        """See the protocol."""
        met, self._met = self._met, []
        while self._struck:
            self._ends(self._struck.pop())
        return "" if _is_any_met(met) else "met nobody"

    def _lie_in_wait(self) -> None:
        deadline = time.monotonic() + IN_WAIT
        while not _is_any_met(self._met) and time.monotonic() < deadline:
            time.sleep(0.002)


def _is_any_met(events: Sequence[threading.Event | None]) -> bool:
    return any(one is None or one.is_set() for one in events)


def way_faults(ways: Callable[[int], Sequence[Proxy]]) -> list[OnWay]:
    """Return what can be done to the ways of clients; `ways` gives the proxies of each."""

    def held(kind: str, role: Role, lengths: tuple[float, float]) -> list[OnWay]:
        """Return each way alone, let through late at its end, or lost then."""
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
        kind: str,
        begins: Callable[[Proxy, Draw], threading.Event | None],
        ends: Callable[[Proxy], None],
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


def _hold_requests(way: Proxy, _: Draw) -> threading.Event:
    return way.hold_all_requests()


def _hold_replies(way: Proxy, _: Draw) -> threading.Event:
    return way.hold_all_replies()


def _lose_requests(way: Proxy, _: Draw) -> threading.Event:
    return way.lose_all_requests()


def _lose_replies(way: Proxy, _: Draw) -> threading.Event:
    return way.lose_all_replies()


def _cut(way: Proxy, _: Draw) -> None:
    way.cut()


def _refuse(way: Proxy, _: Draw) -> None:
    way.refuse()


def _cut_replies(way: Proxy, draw: Draw) -> threading.Event:
    return way.cut_all_replies(after=int(8 * draw.strength))


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
