"""Five nodes for each test file, proxies to two of them, and clients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lockfast_challenge.servers.proxy import Proxy
from lockfast_challenge.servers.redlock import RedlockNodes, url_of

MAX_TTL = 6.0
"""The longest ttl in seconds; a restarted node does not count for that long."""

LONG = 60.0
"""A ttl that outlasts any stall, for tests that are not about expiry, in seconds."""

PATIENT = 5.0
"""A node timeout for tests that are not about it, in seconds."""


@pytest.fixture(scope="module")
def fleet() -> Iterator[RedlockNodes]:
    with RedlockNodes() as nodes:
        yield nodes


@pytest.fixture
def long_leases() -> None:
    """Make leases and quarantines outlast this test."""


@pytest.fixture
def short_leases() -> None:
    """Shorten the longest lease, for a test that waits for its end."""


@pytest.fixture
def limits(request) -> dict[str, float]:
    """The ttl of a lease, and the longest ttl allowed."""
    if "short_leases" in request.fixturenames:
        return {"ttl": 2.0, "max_ttl": 2.0}
    if "long_leases" in request.fixturenames:
        return {"ttl": LONG, "max_ttl": LONG}
    return {"ttl": 5.0, "max_ttl": MAX_TTL}


@pytest.fixture
def nodes(fleet, namespace, limits) -> RedlockNodes:
    """Five nodes, all of them running, which count in the namespace of this test."""
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
    """Return a function that opens a client, on the nodes or on proxies to them."""

    def open_one(*places: Any, **options: Any) -> Any:
        given = {"node_timeout": PATIENT, **limits, **options}
        url = url_of(*(places or nodes.servers))
        return flavour.locks(url, namespace=namespace, request_timeout=10.0, **given)

    return open_one


@pytest.fixture
def ways(nodes, outliving) -> list[Any]:
    """Three nodes, and proxies to the other two."""
    proxies = [outliving.enter_context(Proxy(one.port)) for one in nodes[3:]]
    return [*nodes[:3], *proxies]
