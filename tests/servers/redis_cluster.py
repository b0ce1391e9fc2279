"""Clusters of Redis that the tests of one room share."""

from __future__ import annotations

from servers.sharing import shared_in_its_room

from lockfast.challenge.servers.certificates import certificates
from lockfast.challenge.servers.redis_cluster import ClusterServers


@shared_in_its_room
def shared_cluster() -> ClusterServers:
    """Return a cluster that all tests of this room share; each uses its own namespace."""
    return ClusterServers().start()


@shared_in_its_room
def shared_tls_cluster() -> ClusterServers:
    """Return a cluster that speaks TLS alone, for all tests of this room."""
    return ClusterServers(tls=certificates()).start()
