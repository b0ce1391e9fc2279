"""etcd servers that the tests of one room share."""

from __future__ import annotations

from servers.sharing import shared_in_its_room

from lockfast.challenge.servers.certificates import certificates
from lockfast.challenge.servers.etcd import Cluster, EtcdServer


@shared_in_its_room
def shared_server() -> EtcdServer:
    """Return a server that all tests of this room share; use a namespace of your own."""
    return EtcdServer().start()


@shared_in_its_room
def shared_tls_server() -> EtcdServer:
    """Return a server that speaks TLS and asks for certificates, for all tests of this room."""
    return EtcdServer(tls=certificates()).start()


@shared_in_its_room
def shared_guarded_server() -> EtcdServer:
    """Return one that speaks TLS and knows its users, whom it forgets after two idle seconds.

    By their passwords alone: where it also asks for certificates, its JSON gateway is closed.
    """
    server = EtcdServer("--auth-token-ttl", "2", tls=certificates(), asks=False)
    return server.start().let_in("clerk", "sesame", prefix="", readers=("guest",))


@shared_in_its_room
def shared_cluster() -> Cluster:
    """Return a cluster that all tests of this room share; heal it before use."""
    return Cluster().start()


def whole_cluster() -> Cluster:
    """Return that cluster as it should be, whatever a test of faults has left of it."""
    return shared_cluster().heal()
