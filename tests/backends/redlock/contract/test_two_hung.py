"""The contract on five nodes of which two hang: what is sent to them is taken, and no more."""

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
        one.pause()
    return Store(nodes.url, known, node_timeout=1.5)


class TestAsync(AsyncContractOnRedlock):
    store = store
    ttl = EACH_COUNTS


class TestSync(ContractOnRedlock):
    store = store
    ttl = EACH_COUNTS
