"""The contract on one etcd server, asyncio flavour."""

from __future__ import annotations

from backends.etcd.contract.on_etcd import AsyncOnEtcd
from servers.etcd import shared_server

from lockfast.testing import AsyncBackendContract


class TestContract(AsyncOnEtcd, AsyncBackendContract):
    servers = shared_server
