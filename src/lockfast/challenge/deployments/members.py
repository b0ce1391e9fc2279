"""Three members that elect a leader: it is cut from the others, and each of them is struck."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from lockfast.challenge.deployments.on_servers import PAUSED, OnServers
from lockfast.challenge.deployments.own import OwnServers
from lockfast.challenge.servers.starting import Server

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.challenge.deployments.ways import Place
    from lockfast.challenge.fault import Draw, Fault
    from lockfast.challenge.servers.starting import Three

S = TypeVar("S", bound=Server)

CUT = (2.0, 3.5)
"""In ttls: the next one has the lock before the deposed leader is heard again."""


class Members(OwnServers, Generic[S]):
    """A store that forgets nothing while a majority of its members does not."""

    clock_lacks = ""
    emptying_lacks = ""

    def __init__(self, group: Three[S], *, ttl: float) -> None:
        super().__init__(ttl=ttl)
        self.group = group

    # -- what a store says -----------------------------------------------------------------

    def depose(self, leader: S, *, silently: bool) -> None:
        """Cut a leader from the others, while clients still reach it."""
        raise NotImplementedError

    def forget(self, member: S) -> None:
        """Take from a dead member all that it had been told."""

    # -- a deployment ----------------------------------------------------------------------

    def start_servers(self) -> None:
        """Return once one leads and the others follow."""
        self.group.start()

    def stop_servers(self) -> None:
        """End all members."""
        self.group.stop()

    def places(self) -> list[Place]:
        """Return where the members are."""
        return [("127.0.0.1", one.port) for one in self.group.members]

    def url_at(self, addresses: Sequence[str]) -> str:
        """Return their URL."""
        return f"{self.store}://{','.join(addresses)}"

    def faults(self) -> Sequence[Fault]:
        """See the protocol."""
        return [
            OnServers("leader-cut", CUT, self._cut, self.group.heal),
            OnServers("leader-cut-silently", CUT, self._cut_silently, self.group.heal),
            OnServers("node-paused", PAUSED, self._pause, self.group.heal),
            OnServers("node-killed", begins=self._kill, ends=self.group.heal),
            OnServers(
                "node-emptied",
                begins=self._empty,
                ends=self.group.heal,
                lacks=self.emptying_lacks,
            ),
            OnServers("clock-jump", lacks=self.clock_lacks),
        ]

    def _cut(self, _: Draw) -> str:
        self.depose(self.group.leader(), silently=False)
        return "the leader, from the others"

    def _cut_silently(self, _: Draw) -> str:
        self.depose(self.group.leader(), silently=True)
        return "the leader, from the others"

    def _pause(self, draw: Draw) -> str:
        member, called = self._one(draw)
        member.pause()
        return called

    def _kill(self, draw: Draw) -> str:
        member, called = self._one(draw)
        member.kill()
        return called

    def _empty(self, draw: Draw) -> str:
        member, called = self._one(draw)
        member.kill()
        self.forget(member)
        return f"{called} and its data"

    def _one(self, draw: Draw) -> tuple[S, str]:
        """Return the leader every other time, else a follower; and what it is called."""
        leader = self.group.leader()
        if draw.anybody % 2 == 0:
            return leader, "the leader"
        followers = [one for one in self.group.members if one is not leader]
        return followers[int(draw.strength * len(followers))], "a follower"
