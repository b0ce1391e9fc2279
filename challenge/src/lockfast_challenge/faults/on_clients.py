"""Faults of clients: frozen, killed or interrupted."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lockfast_challenge.clients.fleet import Fleet
    from lockfast_challenge.faults.fault import Draw, Fault, Role
    from lockfast_challenge.servers.proxy import Proxy


# Two faults in sequence on the same victim, combined into one fault.


def then_killed(fault: Fault, fleet: Fleet) -> ThenKilled:
    """Return this fault, extended to kill its victim just before the fault is undone.

    So the store carries out the victim's request and no client receives the reply, which leaves the
    victim's operation without an end.
    """
    return ThenKilled(fault, fleet)


class ThenKilled:
    """A fault that kills its victim at the end of another fault."""

    jumps = None

    def __init__(self, first: Fault, fleet: Fleet) -> None:
        self.kind: str = f"{first.kind}-then-killed"
        self.role: Role | None = first.role
        self.is_destructive: bool = first.is_destructive
        self.lacks: str = first.lacks
        self.lengths: tuple[float, float] = first.lengths
        self._first = first
        self._fleet = fleet
        self._victim: int | None = None

    @property
    def lies_in_wait(self) -> bool:
        return self._first.lies_in_wait

    def begin(self, draw: Draw, victim: int | None) -> str:
        self._victim = draw.anybody if victim is None else victim
        return self._first.begin(draw, self._victim)

    def end(self) -> str | None:
        victim, self._victim = self._victim, None
        try:
            if victim is not None:
                self._fleet.kill(victim)
        finally:
            described = self._first.end()
        return described


NO_PAUSE = (0.0, 0.0)


class ClientFault:
    """One kind of fault: a function that strikes a client, and one that undoes the strike."""

    is_destructive = False
    lies_in_wait = False
    jumps = None

    def __init__(
        self,
        kind: str,
        role: Role,
        *,
        lengths: tuple[float, float] = NO_PAUSE,
        begins: Callable[[int, Draw], None],
        ends: Callable[[int], None] | None = None,
        lacks: str = "",
    ) -> None:
        self.kind = kind
        self.role: Role | None = role
        self.lengths = lengths
        self.lacks = lacks
        self._begins = begins
        self._ends = ends
        self._victim: int | None = None

    def begin(self, draw: Draw, victim: int | None) -> str:
        self._victim = draw.anybody if victim is None else victim
        self._begins(self._victim, draw)
        return f"client {self._victim}"

    def end(self) -> None:
        victim, self._victim = self._victim, None
        if victim is not None and self._ends is not None:
            self._ends(victim)


def client_faults(fleet: Fleet, proxies_of: Callable[[int], Sequence[Proxy]]) -> list[ClientFault]:
    """Return all faults of the clients themselves; `proxies_of` returns the proxies of a client."""
    interrupter = _Interrupter(fleet)

    def freeze(client: int, _: Draw) -> None:
        fleet.freeze(client)

    def kill(client: int, _: Draw) -> None:
        fleet.kill(client)

    def use_up(client: int, _: Draw) -> None:
        fleet.exhaust_descriptors(client)
        # Without a reset the client would keep using its open connections, and notice nothing.
        for client_proxy in proxies_of(client):
            client_proxy.reset()

    lacks = (
        "" if proxies_of(0) else "it needs a proxy on the way of each client, who has to come anew"
    )
    if sys.platform != "linux":
        lacks = "it needs prlimit, which only Linux has"
    return [
        ClientFault("holder-frozen", "holder", lengths=(1.05, 1.6), begins=freeze, ends=fleet.thaw),
        ClientFault(
            "holder-frozen-briefly", "holder", lengths=(0.2, 0.9), begins=freeze, ends=fleet.thaw
        ),
        ClientFault("waiter-frozen", "waiter", lengths=(0.5, 1.6), begins=freeze, ends=fleet.thaw),
        ClientFault("holder-killed", "holder", begins=kill),
        ClientFault("waiter-killed", "waiter", begins=kill),
        ClientFault(
            "holder-interrupted",
            "holder",
            lengths=(1.0, 3.0),
            begins=interrupter.begin,
            ends=interrupter.end,
        ),
        ClientFault(
            "waiter-interrupted",
            "waiter",
            lengths=(1.0, 3.0),
            begins=interrupter.begin,
            ends=interrupter.end,
        ),
        ClientFault(
            "descriptors-used-up",
            "anybody",
            lengths=(0.5, 1.6),
            begins=use_up,
            ends=fleet.restore_descriptors,
            lacks=lacks,
        ),
    ]


class _Interrupter:
    """Interrupts one client repeatedly, every few milliseconds."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._is_over = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, client: int, draw: Draw) -> None:
        self._is_over.clear()
        every = 0.001 + 0.015 * draw.strength
        self._thread = threading.Thread(
            target=self._interrupt_repeatedly, args=(client, every), daemon=True
        )
        self._thread.start()

    def end(self, client: int) -> None:
        del client
        self._is_over.set()
        if self._thread is not None:
            self._thread.join()

    def _interrupt_repeatedly(self, client: int, every: float) -> None:
        while not self._is_over.wait(every):
            self._fleet.interrupt(client)
