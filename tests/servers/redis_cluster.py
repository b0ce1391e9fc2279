"""Redis clusters that the tests of one folder share."""

from __future__ import annotations

from servers.sharing import shared_in_its_room

from lockfast_challenge.servers.certificates import certificates
from lockfast_challenge.servers.redis_cluster import ClusterServers


@shared_in_its_room
def shared_cluster() -> ClusterServers:
    """Return a cluster that all tests of this folder share; each uses its own namespace."""
    return ClusterServers().start()


@shared_in_its_room
def shared_tls_cluster() -> ClusterServers:
    """Return a cluster that only speaks TLS, for all tests of this folder."""
    return ClusterServers(tls=certificates()).start()
