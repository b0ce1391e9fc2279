"""The contract on an etcd server with TLS and authentication, sync flavour."""

from __future__ import annotations

from backends.etcd.contract.on_etcd import SyncOnEtcd
from servers.etcd import shared_guarded_server

from lockfast.testing import BackendContract


class TestContract(SyncOnEtcd, BackendContract):
    servers = shared_guarded_server
