"""Stores whose members elect a leader."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from lockfast_challenge.deployments.own_servers import OwnServers
from lockfast_challenge.faults.on_servers import PAUSE_RANGE_TTLS, ServerFault
from lockfast_challenge.servers.etcd import EtcdServer, PartitionableCluster
from lockfast_challenge.servers.server import Server

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast_challenge.deployments.own_servers import ServerAddress
    from lockfast_challenge.faults.fault import Draw, Fault
    from lockfast_challenge.servers.server import Three


# Three members that elect a leader. Faults cut off the leader, and pause or kill any member.

S = TypeVar("S", bound=Server)

CUT_RANGE_TTLS = (2.0, 3.5)
"""Length of a cut, in ttls; long enough for the next client to get the lock before the deposed
leader is back."""


class EnsembleDeployment(OwnServers, Generic[S]):
    """A store that keeps its data as long as a majority of its members does."""

    clock_lacks = ""
    emptying_lacks = ""

    def __init__(self, group: Three[S], *, ttl: float) -> None:
        super().__init__(ttl=ttl)
        self.group = group

    # -- implemented by each store ---------------------------------------------------------

    def depose(self, leader: S, *, silently: bool) -> None:
        """Cut a leader off from the other members while clients can still reach the leader."""
        raise NotImplementedError

    def forget(self, member: S) -> None:
        """Delete all data of a dead member."""

    # -- the Deployment protocol -----------------------------------------------------------

    def start_servers(self) -> None:
        """Return once one member leads and the other members follow it."""
        self.group.start()

    def stop_servers(self) -> None:
        """Stop all members."""
        self.group.stop()

    def places(self) -> list[ServerAddress]:
        """Return the addresses of the members."""
        return [("127.0.0.1", one.port) for one in self.group.members]

    def url_at(self, addresses: Sequence[str]) -> str:
        """Return the URL that names all members."""
        return f"{self.store}://{','.join(addresses)}"

    def faults(self) -> Sequence[Fault]:
        return [
            ServerFault("leader-cut", CUT_RANGE_TTLS, self._cut, self.group.heal),
            ServerFault("leader-cut-silently", CUT_RANGE_TTLS, self._cut_silently, self.group.heal),
            ServerFault("node-paused", PAUSE_RANGE_TTLS, self._pause, self.group.heal),
            ServerFault("node-killed", begins=self._kill, ends=self.group.heal),
            ServerFault(
                "node-emptied",
                begins=self._empty,
                ends=self.group.heal,
                lacks=self.emptying_lacks,
            ),
            ServerFault("clock-jump", lacks=self.clock_lacks),
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
        """Return the leader or a follower, as the draw decides, and the role in words."""
        leader = self.group.leader()
        if draw.anybody % 2 == 0:
            return leader, "the leader"
        followers = [one for one in self.group.members if one is not leader]
        return followers[int(draw.strength * len(followers))], "a follower"


# An etcd cluster of three.


class Etcd(EnsembleDeployment[EtcdServer]):
    """`etcd://`, on a cluster of three."""

    store = "etcd"
    clock_lacks = "etcd asks the kernel itself for the time: only root could set this machine's"
    emptying_lacks = (
        "etcd takes no member back that has lost its data: an operator would replace it by another"
    )

    def __init__(self, *, ttl: float) -> None:
        self._cluster = PartitionableCluster()
        super().__init__(self._cluster, ttl=ttl)

    def depose(self, leader: EtcdServer, *, silently: bool) -> None:
        """Cut off the leader."""
        self._cluster.cut_off(leader, silently=silently)
