"""An etcd cluster of three."""

from __future__ import annotations

from lockfast.challenge.deployments.members import Members
from lockfast.challenge.servers.etcd import EtcdServer
from lockfast.challenge.servers.etcd_partitions import CuttableCluster


class Etcd(Members[EtcdServer]):
    """`etcd://`."""

    store = "etcd"
    clock_lacks = "etcd asks the kernel itself for the time: only root could set this machine's"
    emptying_lacks = (
        "etcd takes no member back that has lost its data: an operator would replace it by another"
    )

    def __init__(self, *, ttl: float) -> None:
        self._cluster = CuttableCluster()
        super().__init__(self._cluster, ttl=ttl)

    def depose(self, leader: EtcdServer, *, silently: bool) -> None:
        """Cut it off."""
        self._cluster.cut_off(leader, silently=silently)
