"""etcd servers that the tests of one folder share."""

from __future__ import annotations

from servers.sharing import shared_in_its_room

from lockfast_challenge.servers.certificates import certificates
from lockfast_challenge.servers.etcd import EtcdCluster, EtcdServer


@shared_in_its_room
def shared_server() -> EtcdServer:
    """Return a server that all tests of this folder share; use your own namespace."""
    return EtcdServer().start()


@shared_in_its_room
def shared_tls_server() -> EtcdServer:
    """Return a server with TLS that requires client certificates, for all tests of this folder."""
    return EtcdServer(tls=certificates()).start()


@shared_in_its_room
def shared_guarded_server() -> EtcdServer:
    """Return a server with TLS and users, whose auth tokens expire after two idle seconds.

    Users have passwords only: if the server also required certificates, its JSON gateway would be
    closed.
    """
    server = EtcdServer("--auth-token-ttl", "2", tls=certificates(), asks=False)
    return server.start().let_in("clerk", "sesame", prefix="", readers=("guest",))


@shared_in_its_room
def shared_cluster() -> EtcdCluster:
    """Return a cluster that all tests of this folder share; heal it before use."""
    return EtcdCluster().start()


def whole_cluster() -> EtcdCluster:
    """Return the shared cluster healed, whatever a fault test has left of it."""
    return shared_cluster().heal()
