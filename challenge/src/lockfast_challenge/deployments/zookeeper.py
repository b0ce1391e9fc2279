"""A ZooKeeper ensemble of three."""

from __future__ import annotations

import math
import shutil

from lockfast_challenge.deployments.clusters import CUT_RANGE_TTLS, EnsembleDeployment
from lockfast_challenge.servers.zookeeper import (
    SYNC_LIMIT,
    TICK_SECONDS,
    PartitionableEnsemble,
    ZooKeeperServer,
)


class Zookeeper(EnsembleDeployment[ZooKeeperServer]):
    """`zookeeper://`, on an ensemble of three.

    The sync limit is longer than every cut, so that a leader that has lost its followers does not
    notice the loss before the cut ends.
    """

    store = "zookeeper"
    clock_lacks = "ZooKeeper goes by the monotonic clock, which nobody can set"

    def __init__(self, *, ttl: float) -> None:
        patience = max(SYNC_LIMIT, math.ceil(CUT_RANGE_TTLS[1] * ttl / TICK_SECONDS))
        self._ensemble = PartitionableEnsemble(settings={"syncLimit": patience})
        super().__init__(self._ensemble, ttl=ttl)

    def depose(self, leader: ZooKeeperServer, *, silently: bool) -> None:
        """Cut the leader off; unless `silently` is true, its followers notice the cut."""
        self._ensemble.depose(leader, silently=silently)

    def forget(self, member: ZooKeeperServer) -> None:
        """Delete the member's log and snapshots; the member keeps its id."""
        shutil.rmtree(member.data / "version-2", ignore_errors=True)
