"""The contract on five nodes of which two are dead."""

from __future__ import annotations

from functools import cache

from backends.redlock.contract.on_redlock import (
    EACH_COUNTS,
    AsyncContractOnRedlock,
    ContractOnRedlock,
    Store,
    namespaces,
)

from holdfast.challenge.servers.redlock import RedlockNodes


@cache
def store() -> Store:
    nodes, known = RedlockNodes().start(), namespaces()
    nodes.found(known)
    for one in nodes[1:3]:
        one.kill()
    return Store(nodes.url, known)


class TestAsync(AsyncContractOnRedlock):
    store = store
    ttl = EACH_COUNTS


class TestSync(ContractOnRedlock):
    store = store
    ttl = EACH_COUNTS
