"""Five nodes of a file's own, the ways to two of them, and clients that look on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lockfast.challenge.servers.proxy import Proxy
from lockfast.challenge.servers.redlock import RedlockNodes, url_of

MAX_TTL = 6.0
"""As long a node does not count that was restarted."""

LONG = 60.0
"""A lease that no busy machine outlasts, where its end is not on trial."""

PATIENT = 5.0
"""A node timeout for those whose own is not on trial."""


@pytest.fixture(scope="module")
def fleet() -> Iterator[RedlockNodes]:
    with RedlockNodes() as nodes:
        yield nodes


@pytest.fixture
def long_leases() -> None:
    """Say that leases and quarantines shall outlast this test."""


@pytest.fixture
def short_leases() -> None:
    """Say that this test waits for the longest lease to end."""


@pytest.fixture
def limits(request) -> dict[str, float]:
    """How long a lease is, and how long one may be."""
    if "short_leases" in request.fixturenames:
        return {"ttl": 2.0, "max_ttl": 2.0}
    if "long_leases" in request.fixturenames:
        return {"ttl": LONG, "max_ttl": LONG}
    return {"ttl": 5.0, "max_ttl": MAX_TTL}


@pytest.fixture
def nodes(fleet, namespace, limits) -> RedlockNodes:
    """All of them run, and count in the namespace of this test."""
    for one in fleet:
        one.shift_clock(0.0)
        if one.is_running:
            one.resume()
        else:
            one.start()
    fleet.found([namespace], max_ttl=limits["max_ttl"])
    return fleet


@pytest.fixture
def opened(flavour, nodes, namespace, limits) -> Callable[..., Any]:
    """Open a client, on the nodes or on what stands before them."""

    def open_one(*places: Any, **options: Any) -> Any:
        given = {"node_timeout": PATIENT, **limits, **options}
        url = url_of(*(places or nodes.servers))
        return flavour.locks(url, namespace=namespace, request_timeout=10.0, **given)

    return open_one


@pytest.fixture
def ways(nodes, outliving) -> list[Any]:
    """Three nodes, and proxies before the other two."""
    proxies = [outliving.enter_context(Proxy(one.port)) for one in nodes[3:]]
    return [*nodes[:3], *proxies]
