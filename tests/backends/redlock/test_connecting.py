"""A thread that finds no idle connections opens new connections to all nodes at once."""

from __future__ import annotations

import threading

from servers.redlock import shared_nodes

from lockfast import Locks
from lockfast.backends.redlock.nodes_threads import NodeTransport


def test_connections_that_are_missing_are_made_at_once(namespace, monkeypatch):
    """All missing connections are opened in parallel, so a node that hangs delays no other node."""
    nodes = shared_nodes()
    nodes.found([namespace])
    together = threading.Barrier(5, timeout=50)
    connect = NodeTransport.connect

    def connect_together(transport, *, deadline: float):
        together.wait()
        return connect(transport, deadline=deadline + 60)

    with Locks(nodes.url, namespace=namespace, node_timeout=20, request_timeout=60) as locks:
        locks.lock("door").acquire(timeout=20).release()
        for transport in locks._client.backend._nodes.transports:
            while (line := transport.take()) is not None:
                line.lose(ConnectionError("taken by another thread"))
        monkeypatch.setattr(NodeTransport, "connect", connect_together)

        with locks.lock("door", timeout=20) as lease:
            monkeypatch.undo()
            assert lease.token > 0
