"""The contract on one etcd server, sync flavour."""

from __future__ import annotations

from backends.etcd.contract.on_etcd import SyncOnEtcd
from servers.etcd import shared_server

from lockfast.testing import BackendContract


class TestContract(SyncOnEtcd, BackendContract):
    servers = shared_server
