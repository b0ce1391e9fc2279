"""The contract on one etcd server, sync flavour."""

from __future__ import annotations

import pytest
from backends.etcd.contract.on_etcd import SyncOnEtcd
from servers.etcd import shared_server

from lockfast.testing import BackendContract

pytestmark = pytest.mark.soak  # `make test` runs the other flavour of this deployment


class TestContract(SyncOnEtcd, BackendContract):
    servers = shared_server
