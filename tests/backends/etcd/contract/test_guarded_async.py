"""The contract on an etcd server with TLS and authentication, asyncio flavour."""

from __future__ import annotations

from backends.etcd.contract.on_etcd import AsyncOnEtcd
from servers.etcd import shared_guarded_server

from lockfast.testing import AsyncBackendContract


class TestContract(AsyncOnEtcd, AsyncBackendContract):
    servers = shared_guarded_server
