"""What is done to servers: a kind of fault, made of what begins it and what ends it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from lockfast.challenge.fault import DidNotStrike
from lockfast.challenge.servers.starting import Server

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lockfast.challenge.fault import Draw, Role

S = TypeVar("S", bound=Server)

PAUSED = (0.3, 2.0)
"""Shorter than the ttl and longer: a lease that outlives it is renewed, another is lost."""
AWAY = (0.1, 1.5)


def _lacking(_: Draw) -> str:
    raise DidNotStrike("nothing is known that would make it")


def _well() -> None:
    return


@dataclass(frozen=True, slots=True)
class OnServers:
    """One kind; what ends it also mends what was only half begun."""

    kind: str
    lengths: tuple[float, float] = AWAY
    begins: Callable[[Draw], str] = _lacking
    ends: Callable[[], object] = _well
    lacks: str = ""
    is_destructive: bool = True
    role: Role | None = None

    def begin(self, draw: Draw, victim: int | None) -> str:
        """See the protocol."""
        del victim
        return self.begins(draw)

    def end(self) -> None:
        """See the protocol."""
        self.ends()


def one_of(servers: Sequence[S], draw: Draw) -> S:
    """Return the server that chance has chosen."""
    return servers[int(draw.strength * len(servers)) % len(servers)]


def revive(servers: Sequence[Server]) -> None:
    """Let all of them serve again, where they were."""
    for one in servers:
        if one.is_running:
            one.resume()
        else:
            one.spawn()
    for one in servers:
        one.until_it_serves()
