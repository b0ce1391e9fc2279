"""Redlock nodes that the tests of one folder share."""

from __future__ import annotations

from servers.sharing import shared_in_its_room

from lockfast_challenge.servers.redlock import RedlockNodes


@shared_in_its_room
def shared_nodes() -> RedlockNodes:
    """Return nodes that all tests of this folder share; each uses its own namespace."""
    return RedlockNodes().start()
