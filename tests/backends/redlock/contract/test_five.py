"""The contract on five nodes, all well."""

from __future__ import annotations

from backends.redlock.contract.on_redlock import (
    AsyncContractOnRedlock,
    ContractOnRedlock,
    Store,
)
from servers.redlock import shared_nodes


def store() -> Store:
    return Store(shared_nodes().url)


class TestAsync(AsyncContractOnRedlock):
    store = store


class TestSync(ContractOnRedlock):
    store = store
