"""Members of an ensemble that can be cut from each other, while clients still reach them."""

from __future__ import annotations

from functools import partial
from typing import Self

from lockfast.challenge.eventually import eventually
from lockfast.challenge.servers.proxy import Proxy
from lockfast.challenge.servers.zookeeper import Ensemble, ZooKeeperServer

# A leader listens only once it leads. A follower that was accepted and then reset would begin
# another election, where one that is refused simply tries again.
Way: partial[Proxy] = partial(Proxy, listens_within=2.0)
"""The way of a member to a port of another, which can be cut without a word."""


class CuttableEnsemble(Ensemble):
    """An ensemble whose members can be cut from each other, while clients still reach them."""

    def __init__(self, *, settings: dict[str, object] | None = None) -> None:
        super().__init__(settings=settings)
        self._ways: dict[tuple[int, int], Proxy] = {}
        self._election_ways: dict[tuple[int, int], Proxy] = {}

    def way(self, member: int, other: int, port: int) -> int:
        """Return the port of a proxy, but to each member its own."""
        if member == other:
            return port
        found = self._ways[member, other] = Way(port)
        return found.__enter__().port

    def election_way(self, member: int, other: int, port: int) -> int:
        """Return the port of a proxy here too."""
        if member == other:
            return port
        found = self._election_ways[member, other] = Way(port)
        return found.__enter__().port

    def cut_off(self, follower: ZooKeeperServer) -> None:
        """Let a follower and its leader hear no more of each other.

        Followers connect to their leader; over their election ports they still talk.
        """
        for (member, _), way in self._ways.items():
            if self.members[member] is follower:
                way.cut()

    def depose(self, leader: ZooKeeperServer, *, silently: bool) -> None:
        """Cut a leader from all others, while its clients still reach it.

        Silently, nobody is told, and all wait for each other equally long. Otherwise its
        followers hear at once that it is gone and elect another, and it does not hear of it.
        """
        number = self.members.index(leader)
        for ends, way in self._election_ways.items():
            if number in ends:
                way.cut()
        for (member, other), way in self._ways.items():
            if other == number:
                way.cut(told=not silently)
            elif member == number:
                way.cut()

    def heal(self) -> Self:
        """Mend all ways too, and wait until whoever was cut off has come by them."""
        cut = {member for (member, _), way in self._ways.items() if way.is_refusing}
        for way in self._all_ways():
            if way.is_refusing:
                way.mend()
        for member in cut:
            eventually(partial(self._is_back, member), what="it is back")
        return super().heal()

    def _is_back(self, member: int) -> bool:
        return self.members[member].mode() == "leader" or any(
            way.connections for (one, _), way in self._ways.items() if one == member
        )

    def stop(self) -> None:
        """End all of them, and the ways between them."""
        super().stop()
        for way in self._all_ways():
            way.__exit__()
        self._ways.clear()
        self._election_ways.clear()

    def _all_ways(self) -> list[Proxy]:
        return [*self._ways.values(), *self._election_ways.values()]
