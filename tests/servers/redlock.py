"""Nodes of Redlock that the tests of one room share."""

from __future__ import annotations

from servers.sharing import shared_in_its_room

from lockfast.challenge.servers.redlock import RedlockNodes


@shared_in_its_room
def shared_nodes() -> RedlockNodes:
    """Return nodes that all tests of this room share; each uses its own namespace."""
    return RedlockNodes().start()
