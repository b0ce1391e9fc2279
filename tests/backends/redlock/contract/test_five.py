"""The contract on five healthy nodes."""

from __future__ import annotations

from functools import cache

from backends.redlock.contract.on_redlock import (
    AsyncContractOnRedlock,
    ContractOnRedlock,
    Store,
    namespaces,
)
from servers.redlock import shared_nodes


@cache
def store() -> Store:
    nodes, known = shared_nodes(), namespaces()
    nodes.found(known)
    return Store(nodes.url, known)


class TestAsync(AsyncContractOnRedlock):
    store = store


class TestSync(ContractOnRedlock):
    store = store
