"""Nodes of Redlock that the tests of one run share."""

from __future__ import annotations

from functools import cache

from holdfast.challenge.servers.redlock import RedlockNodes


@cache
def shared_nodes() -> RedlockNodes:
    """Return nodes that all tests of this run share; each uses its own namespace."""
    return RedlockNodes().start()
