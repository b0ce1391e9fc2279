"""The contract on an etcd server with TLS and authentication, sync flavour."""

from __future__ import annotations

import pytest
from backends.etcd.contract.on_etcd import SyncOnEtcd
from servers.etcd import shared_guarded_server

from lockfast.testing import BackendContract

pytestmark = pytest.mark.soak  # `make test` runs the other flavour of this deployment


class TestContract(SyncOnEtcd, BackendContract):
    servers = shared_guarded_server
