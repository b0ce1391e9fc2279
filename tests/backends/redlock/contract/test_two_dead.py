"""The contract on five nodes of which two are dead."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from backends.redlock.contract.on_redlock import (
    EACH_COUNTS,
    AsyncContractOnRedlock,
    ContractOnRedlock,
    Store,
    namespaces,
)
from servers.sharing import shared_in_its_room

from lockfast_challenge.servers.redlock import RedlockNodes


@shared_in_its_room
def store() -> Store:
    ending, known = ExitStack(), namespaces()
    nodes = ending.enter_context(RedlockNodes())
    nodes.found(known)
    for one in nodes[1:3]:
        one.kill()
    return Store(nodes.url, known, ending=ending)


class TestAsync(AsyncContractOnRedlock):
    store = store
    ttl = EACH_COUNTS


@pytest.mark.soak  # `make test` runs the other flavour of this deployment
class TestSync(ContractOnRedlock):
    store = store
    ttl = EACH_COUNTS
