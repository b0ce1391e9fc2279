"""Faults that proxies make on one client's connections: held, lost, late, cut or reset messages.

Held messages are delivered when the fault ends, and so arrive late. The store may then carry out a
request that its client has given up, or a reply may reach a caller that received an error long ago.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Sequence

    from lockfast_challenge.faults.fault import Draw, Role
    from lockfast_challenge.servers.proxy import Proxy

HELD_RANGE_TTLS = (1.05, 1.6)
"""Length of a fault, in ttls; longer than a lease lasts without renewal."""
BRIEF_RANGE_TTLS = (0.06, 0.6)
"""Length of a brief fault, in ttls; long enough for a reply, short enough to strike often."""
SLOW_RANGE_TTLS = (2.3, 2.6)
"""Length of a fault that first delays messages and then cuts the connection, in ttls; long enough
for a client that trusts its lease from the late reply on to be found beside the next holder."""
SLOWED_ROLES: Final = ("holder", "asker")
MESSAGE_WAIT_SECONDS = 1.0
"""Longest time that a brief fault lies in wait for a message, in seconds."""


class NetworkFault:
    """One kind of fault: a function that strikes a proxy of the victim, and one that undoes it."""

    is_destructive = False
    jumps = None

    def __init__(
        self,
        kind: str,
        role: Role,
        proxies_of: Callable[[int], Sequence[Proxy]],
        *,
        lengths: tuple[float, float],
        begins: Callable[[Proxy, Draw], threading.Event | None],
        ends: Callable[[Proxy], None],
    ) -> None:
        self.kind = kind
        self.role: Role | None = role
        self.lengths = lengths
        self._proxies_of = proxies_of
        self._begins = begins
        self._ends = ends
        self._struck: list[Proxy] = []
        self._met: list[threading.Event | None] = []
        self.lacks = "" if proxies_of(0) else "it needs a proxy on the way of each client"

    @property
    def lies_in_wait(self) -> bool:
        return self.lengths == BRIEF_RANGE_TTLS and not _is_any_met(self._met)

    def begin(self, draw: Draw, victim: int | None) -> str:
        client = draw.anybody if victim is None else victim
        for target in self._proxies_of(client):
            self._struck.append(target)
            self._met.append(self._begins(target, draw))
        return f"the way of client {client}"

    def end(self) -> str:
        met, self._met = self._met, []
        while self._struck:
            self._ends(self._struck.pop())
        return "" if _is_any_met(met) else "met nobody"


def _is_any_met(events: Sequence[threading.Event | None]) -> bool:
    return any(one is None or one.is_set() for one in events)


def network_faults(proxies_of: Callable[[int], Sequence[Proxy]]) -> list[NetworkFault]:
    """Return the faults on the connections of clients; `proxies_of` returns a client's proxies."""

    def held(kind: str, role: Role, lengths: tuple[float, float]) -> list[NetworkFault]:
        """Return faults that hold one direction, and later deliver or lose the held messages."""
        directions = (("requests", _hold_requests), ("replies", _hold_replies))
        ends = (("", _let_through), ("-then-cut", _lose_what_is_held))
        return [
            NetworkFault(
                f"{kind}-{direction}-held{suffix}",
                role,
                proxies_of,
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
    ) -> NetworkFault:
        return NetworkFault(
            kind, "holder", proxies_of, lengths=HELD_RANGE_TTLS, begins=begins, ends=ends
        )

    return [
        *held("holder", "holder", HELD_RANGE_TTLS),
        *held("asker", "asker", BRIEF_RANGE_TTLS),
        *held("waiter", "waiter", HELD_RANGE_TTLS),
        lost("holder-cut-off", _cut, _mend),
        lost("holder-requests-lost", _lose_requests, _lose_what_is_held),
        lost("holder-replies-lost", _lose_replies, _lose_what_is_held),
        *(
            NetworkFault(
                f"{role}-slow-then-cut",
                role,
                proxies_of,
                lengths=SLOW_RANGE_TTLS,
                begins=_slow_then_cut,
                ends=_mend_slow,
            )
            for role in SLOWED_ROLES
        ),
        NetworkFault(
            "waiter-refused",
            "waiter",
            proxies_of,
            lengths=HELD_RANGE_TTLS,
            begins=_refuse,
            ends=_accept,
        ),
        NetworkFault(
            "reset-in-mid-reply",
            "asker",
            proxies_of,
            lengths=BRIEF_RANGE_TTLS,
            begins=_cut_replies,
            ends=_let_through,
        ),
        NetworkFault(
            "delay", "anybody", proxies_of, lengths=(1.0, 3.0), begins=_delay, ends=_end_delay
        ),
    ]


def _hold_requests(target: Proxy, _: Draw) -> threading.Event:
    return target.hold_all_requests()


def _hold_replies(target: Proxy, _: Draw) -> threading.Event:
    return target.hold_all_replies()


def _lose_requests(target: Proxy, _: Draw) -> threading.Event:
    return target.lose_all_requests()


def _lose_replies(target: Proxy, _: Draw) -> threading.Event:
    return target.lose_all_replies()


def _cut(target: Proxy, _: Draw) -> None:
    target.cut()


def _slow_then_cut(target: Proxy, draw: Draw) -> None:
    # A reply takes twice the delay, half a ttl or more, and still comes before the cut.
    target.delay((0.1 + 0.06 * draw.strength) * draw.length)
    target.cut(after=draw.length / 3.0)


def _mend_slow(target: Proxy) -> None:
    target.delay(0.0)
    target.mend()


def _refuse(target: Proxy, _: Draw) -> None:
    target.refuse()


def _cut_replies(target: Proxy, draw: Draw) -> threading.Event:
    return target.cut_all_replies(after=int(8 * draw.strength))


def _delay(target: Proxy, draw: Draw) -> None:
    target.delay(0.001 + 0.05 * draw.strength)


def _let_through(target: Proxy) -> None:
    target.let_through()


def _lose_what_is_held(target: Proxy) -> None:
    target.reset_and_let_through()


def _mend(target: Proxy) -> None:
    target.mend()


def _accept(target: Proxy) -> None:
    target.accept()


def _end_delay(target: Proxy) -> None:
    target.delay(0.0)
