"""What is done to the processes of clients: frozen, killed, interrupted, out of descriptors."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lockfast.challenge.clients.fleet import Fleet
    from lockfast.challenge.fault import Draw, Role
    from lockfast.challenge.servers.proxy import Proxy

AT_ONCE = (0.0, 0.0)


class OnClient:
    """One kind, made of what is done to a client's number and what undoes it."""

    is_destructive = False

    def __init__(
        self,
        kind: str,
        role: Role,
        *,
        lengths: tuple[float, float] = AT_ONCE,
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
        """See the protocol."""
        self._victim = draw.anybody if victim is None else victim
        self._begins(self._victim, draw)
        return f"client {self._victim}"

    def end(self) -> None:
        """See the protocol."""
        victim, self._victim = self._victim, None
        if victim is not None and self._ends is not None:
            self._ends(victim)


def client_faults(fleet: Fleet, ways: Callable[[int], Sequence[Proxy]]) -> list[OnClient]:
    """Return all that can be done to the clients themselves; `ways` gives the proxies of each."""
    pulse = _Pulse(fleet)

    def freeze(client: int, _: Draw) -> None:
        fleet.freeze(client)

    def kill(client: int, _: Draw) -> None:
        fleet.kill(client)

    def use_up(client: int, _: Draw) -> None:
        fleet.use_up_descriptors(client)
        # Else it goes on by the connections that it has, and notices nothing.
        for way in ways(client):
            way.reset()

    lacks = "" if ways(0) else "it needs a proxy on the way of each client, who has to come anew"
    if sys.platform != "linux":
        lacks = "it needs prlimit, which only Linux has"
    return [
        OnClient("holder-frozen", "holder", lengths=(1.05, 1.6), begins=freeze, ends=fleet.thaw),
        OnClient(
            "holder-frozen-briefly", "holder", lengths=(0.2, 0.9), begins=freeze, ends=fleet.thaw
        ),
        OnClient("waiter-frozen", "waiter", lengths=(0.5, 1.6), begins=freeze, ends=fleet.thaw),
        OnClient("holder-killed", "holder", begins=kill),
        OnClient("waiter-killed", "waiter", begins=kill),
        OnClient(
            "holder-interrupted", "holder", lengths=(1.0, 3.0), begins=pulse.begin, ends=pulse.end
        ),
        OnClient(
            "waiter-interrupted", "waiter", lengths=(1.0, 3.0), begins=pulse.begin, ends=pulse.end
        ),
        OnClient(
            "descriptors-used-up",
            "anybody",
            lengths=(0.5, 1.6),
            begins=use_up,
            ends=fleet.give_descriptors_back,
            lacks=lacks,
        ),
    ]


class _Pulse:
    """Interrupts one client again and again, every few milliseconds."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._is_over = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, client: int, draw: Draw) -> None:
        self._is_over.clear()
        every = 0.001 + 0.015 * draw.strength
        self._thread = threading.Thread(target=self._beat, args=(client, every), daemon=True)
        self._thread.start()

    def end(self, client: int) -> None:
        del client
        self._is_over.set()
        if self._thread is not None:
            self._thread.join()

    def _beat(self, client: int, every: float) -> None:
        while not self._is_over.wait(every):
            self._fleet.interrupt(client)
