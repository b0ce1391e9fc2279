"""Clusters of Redis that the tests of one run share."""

from __future__ import annotations

from functools import cache

from holdfast.challenge.servers.certificates import certificates
from holdfast.challenge.servers.redis_cluster import ClusterServers


@cache
def shared_cluster() -> ClusterServers:
    """Return a cluster that all tests of this run share; each uses its own namespace."""
    return ClusterServers().start()


@cache
def shared_tls_cluster() -> ClusterServers:
    """Return a cluster that speaks TLS alone, for all tests of this run."""
    return ClusterServers(tls=certificates()).start()
