"""A ZooKeeper ensemble of three."""

from __future__ import annotations

import math
import shutil

from lockfast.challenge.deployments.members import CUT, Members
from lockfast.challenge.servers.zookeeper import SYNC_LIMIT, TICK, ZooKeeperServer
from lockfast.challenge.servers.zookeeper_partitions import CuttableEnsemble


class Zookeeper(Members[ZooKeeperServer]):
    """`zookeeper://`; a leader that is cut off half does not notice before the cut is over."""

    store = "zookeeper"
    clock_lacks = "ZooKeeper goes by the monotonic clock, which nobody can set"

    def __init__(self, *, ttl: float) -> None:
        patience = max(SYNC_LIMIT, math.ceil(CUT[1] * ttl / TICK))
        self._ensemble = CuttableEnsemble(settings={"syncLimit": patience})
        super().__init__(self._ensemble, ttl=ttl)

    def depose(self, leader: ZooKeeperServer, *, silently: bool) -> None:
        """Cut it off; unless silently, its followers hear of it, and it does not."""
        self._ensemble.depose(leader, silently=silently)

    def forget(self, member: ZooKeeperServer) -> None:
        """Delete its log and its snapshots; who it is, it keeps."""
        shutil.rmtree(member.data / "version-2", ignore_errors=True)
