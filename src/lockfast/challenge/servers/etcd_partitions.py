"""Members of a cluster that can be cut from each other, while clients still reach them."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from lockfast.challenge.eventually import eventually
from lockfast.challenge.servers.etcd import Cluster, EtcdServer
from lockfast.challenge.servers.proxy import Message, Proxy

if TYPE_CHECKING:
    from lockfast.challenge.servers.proxied import Connection

FROM = re.compile(rb"X-Server-From: ([0-9a-f]+)\r\n")
"""What each member says in its first request to another."""


class Way(Proxy):
    """The way of all others to one member; each of them can be cut off by itself.

    All members know each other by the same addresses, so who comes is told by its words.
    """

    def __init__(self, port: int) -> None:
        super().__init__(port, listens_within=2.0)
        self._whose: dict[Connection, int] = {}
        self._cut: dict[int, bool] = {}

    def cut_from(self, member: int, *, silently: bool) -> None:
        """Let a member's words not come through any more, nor the answers to them."""

        async def cut() -> None:
            self._cut[member] = silently
            for one in self._connections & self._whose.keys():
                self._stop(one)

        self._on_loop(cut)

    def mend(self) -> None:
        """Let all through again; what was under way when it was cut is gone."""
        self._cut.clear()
        if self.is_refusing:
            super().mend()
        else:
            self._on_loop(self._reset_stopped)

    async def _reset_stopped(self) -> None:
        for one in self._connections:
            if not one.up.is_open.is_set():
                one.reset()
                one.up.is_open.set()
                one.down.is_open.set()

    def _stop(self, one: Connection) -> None:
        silently = self._cut.get(self._whose[one])
        if silently is None:
            return
        one.up.is_open.clear()
        one.down.is_open.clear()
        if not silently:
            one.reset()

    def _apply_rules(self, one: Connection, request: Message) -> None:
        if one not in self._whose and (found := FROM.search(request.data)):
            self._whose[one] = int(found[1], 16)
            self._stop(one)
        super()._apply_rules(one, request)


class CuttableCluster(Cluster):
    """A cluster whose members can be cut from each other, while clients still reach them."""

    def __init__(self, *options: str) -> None:
        super().__init__(*options)
        self._ways: dict[str, Way] = {}

    def way(self, member: EtcdServer) -> int:
        """Return the port of a proxy."""
        found = self._ways[member.name] = Way(member.peer_port)
        return found.__enter__().port

    def cut_off(self, member: EtcdServer, *, silently: bool) -> None:
        """Let a member and the others hear no more of each other.

        Silently, nobody is told. Otherwise connections are reset, and each new one is too.
        """
        number = member.id
        for name, way in self._ways.items():
            if name != member.name:
                way.cut_from(number, silently=silently)
            elif silently:
                way.cut()
            else:
                way.refuse()

    def until_whole(self) -> None:
        """Return once all serve, and are known by their numbers: one that is frozen tells none."""
        super().until_whole()
        for one in self.members:
            _ = one.id

    def heal(self) -> Self:
        """Mend all ways too."""
        for way in self._ways.values():
            way.mend()
        super().heal()
        eventually(self._agree, what="all follow the same leader", despite=(OSError,))
        return self

    def _agree(self) -> bool:
        states = [one.state() for one in self.members]
        return len({(one.get("leader"), one.get("raftTerm")) for one in states}) == 1

    def stop(self) -> None:
        """End all of them, and the ways between them."""
        super().stop()
        for way in self._ways.values():
            with suppress(RuntimeError):  # it was never begun
                way.__exit__()
        self._ways.clear()
