"""A store that is one server: paused, killed, emptied, its clock set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from lockfast.challenge.deployments.on_servers import PAUSED, OnServers, revive
from lockfast.challenge.deployments.own import OwnServers
from lockfast.challenge.servers.shifted_clock import ShiftedClock
from lockfast.challenge.servers.starting import Server

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.challenge.deployments.ways import Place
    from lockfast.challenge.fault import Draw, Fault

S = TypeVar("S", bound=Server)


class OneServer(OwnServers, Generic[S]):
    """`server` is made by the store, and says what it forgets and whose clock it goes by."""

    server: S
    clock_lacks = ""
    """Why its clock cannot be set, if it cannot."""

    def end_without_data(self) -> None:
        """Kill it, and take from it all that it had been told."""
        self.server.kill()

    def start_servers(self) -> None:
        """Return once it serves."""
        self.server.start()

    def stop_servers(self) -> None:
        """End it."""
        self.server.stop()

    def places(self) -> list[Place]:
        """Return where it is."""
        return [("127.0.0.1", self.server.port)]

    def faults(self) -> Sequence[Fault]:
        """See the protocol."""
        return [
            OnServers("server-paused", PAUSED, self._pause, self._revive),
            OnServers("server-killed", begins=self._kill, ends=self._revive),
            OnServers("server-emptied", begins=self._empty, ends=self._revive),
            OnServers(
                "clock-jump", (0.5, 1.5), self._jump, self._set_right, lacks=self.clock_lacks
            ),
        ]

    def _revive(self) -> None:
        revive([self.server])

    def _pause(self, _: Draw) -> str:
        self.server.pause()
        return "the server"

    def _kill(self, _: Draw) -> str:
        self.server.kill()
        return "the server"

    def _empty(self, _: Draw) -> str:
        self.end_without_data()
        return "the server and its data"

    def _jump(self, draw: Draw) -> str:
        return jump(self.server, draw, ttl=self.ttl)

    def _set_right(self) -> None:
        set_right([self.server])


def jump(server: Server, draw: Draw, *, ttl: float) -> str:
    """Let a server's clock jump by more than a ttl, ahead or back; return how far, in words."""
    if not isinstance(server, ShiftedClock):
        raise TypeError(f"the clock of {server.kind} cannot be set")
    by = ttl * (1.5 + draw.strength) * (1 if draw.anybody % 2 == 0 else -1)
    server.shift_clock(by)
    return f"the server's clock, by {by:+.1f} s"


def set_right(servers: Sequence[Server]) -> None:
    """Let all clocks be right again."""
    for one in servers:
        if isinstance(one, ShiftedClock):
            one.shift_clock(0.0)
