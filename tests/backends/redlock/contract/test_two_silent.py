"""The contract on five nodes of which two execute every request and lose every reply."""

from __future__ import annotations

import math
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

from lockfast_challenge.servers.proxy import Proxy
from lockfast_challenge.servers.redlock import RedlockNodes, url_of


@shared_in_its_room
def store() -> Store:
    ending, known = ExitStack(), namespaces()
    nodes = ending.enter_context(RedlockNodes())
    nodes.found(known)
    proxies = [ending.enter_context(Proxy(one.port)) for one in nodes[1:3]]
    for one in proxies:
        # Lose only replies about a name: without a handshake these nodes would not be asked.
        one.lose_reply_to(b"}:hold", times=math.inf)
    return Store(url_of(nodes[0], *proxies, *nodes[3:]), known, node_timeout=1.5, ending=ending)


@pytest.mark.soak  # `make test` runs the other flavour of this deployment
class TestAsync(AsyncContractOnRedlock):
    store = store
    ttl = EACH_COUNTS


class TestSync(ContractOnRedlock):
    store = store
    ttl = EACH_COUNTS
