"""The contract on a cluster of three etcd servers, sync flavour."""

from __future__ import annotations

from backends.etcd.contract.on_etcd import SyncOnEtcd
from servers.etcd import whole_cluster

from lockfast.testing import BackendContract


class TestContract(SyncOnEtcd, BackendContract):
    servers = whole_cluster
