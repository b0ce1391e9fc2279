"""The contract on a cluster of three etcd servers, asyncio flavour."""

from __future__ import annotations

import pytest
from backends.etcd.contract.on_etcd import AsyncOnEtcd
from servers.etcd import whole_cluster

from lockfast.testing import AsyncBackendContract

pytestmark = pytest.mark.soak  # `make test` runs the other flavour of this deployment


class TestContract(AsyncOnEtcd, AsyncBackendContract):
    servers = whole_cluster
