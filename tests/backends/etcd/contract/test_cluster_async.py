"""The contract on a cluster of three etcd servers, asyncio flavour."""

from __future__ import annotations

from backends.etcd.contract.on_etcd import AsyncOnEtcd
from servers.etcd import whole_cluster

from lockfast.testing import AsyncBackendContract


class TestContract(AsyncOnEtcd, AsyncBackendContract):
    servers = whole_cluster
