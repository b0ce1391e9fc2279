"""Faults of servers; each kind consists of a function that begins it and one that ends it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from lockfast_challenge.faults.fault import DidNotStrike
from lockfast_challenge.servers.server import Server

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lockfast_challenge.faults.fault import Draw, Role

S = TypeVar("S", bound=Server)

PAUSE_RANGE_TTLS = (0.3, 2.0)
"""Length of a pause, in ttls; some leases outlive it and are renewed, others are lost."""
DOWN_RANGE_TTLS = (0.1, 1.5)


def _cannot_begin(_: Draw) -> str:
    raise DidNotStrike("nothing is known that would make it")


def _nothing_to_end() -> None:
    return


@dataclass(frozen=True, slots=True)
class ServerFault:
    """One kind of fault; its end repairs all servers, even if the fault was only half begun."""

    kind: str
    lengths: tuple[float, float] = DOWN_RANGE_TTLS
    begins: Callable[[Draw], str] = _cannot_begin
    ends: Callable[[], object] = _nothing_to_end
    lacks: str = ""
    is_destructive: bool = True
    role: Role | None = None
    lies_in_wait: bool = False
    jumps: Callable[[Draw], float] | None = None

    def begin(self, draw: Draw, victim: int | None) -> str:
        del victim
        return self.begins(draw)

    def end(self) -> None:
        self.ends()


def one_of(servers: Sequence[S], draw: Draw) -> S:
    """Return the server that the draw selects."""
    return servers[int(draw.strength * len(servers)) % len(servers)]


def revive(servers: Sequence[Server]) -> None:
    """Resume or restart all servers, on their old ports; return once all of them serve."""
    for one in servers:
        if one.is_running:
            one.resume()
        else:
            one.spawn()
    for one in servers:
        one.until_it_serves()
