"""One fault after the other, on the same victim, as one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lockfast.challenge.clients.fleet import Fleet
    from lockfast.challenge.fault import Draw, Fault, Role


def then_killed(fault: Fault, fleet: Fleet) -> ThenKilled:
    """Return the fault after which its victim is killed, before all is well again.

    So what it asked for is done, and nobody hears of it: what it has begun is never ended.
    """
    return ThenKilled(fault, fleet)


class ThenKilled:
    """The first fault, and a kill at its end."""

    def __init__(self, first: Fault, fleet: Fleet) -> None:
        self.kind: str = f"{first.kind}-then-killed"
        self.role: Role | None = first.role
        self.is_destructive: bool = first.is_destructive
        self.lacks: str = first.lacks
        self.lengths: tuple[float, float] = first.lengths
        self._first = first
        self._fleet = fleet
        self._victim: int | None = None

    def begin(self, draw: Draw, victim: int | None) -> str:
        """See the protocol."""
        self._victim = draw.anybody if victim is None else victim
        return self._first.begin(draw, self._victim)

    def end(self) -> str | None:
        """See the protocol."""
        victim, self._victim = self._victim, None
        try:
            if victim is not None:
                self._fleet.kill(victim)
        finally:
            said = self._first.end()
        return said
