"""A connection that is cut because it does not answer is replaced before the next request."""

from __future__ import annotations

from lockfast.backends.zookeeper import address, requests
from lockfast.backends.zookeeper._sync.connection import ZooKeeperConnection
from lockfast.runtime.clock import Clock

PATIENCE = 30.0


def test_a_request_right_after_the_cut_waits_for_the_next_connection(server):
    """On the connection that was cut, its outcome would be unknown."""
    place = address.of_url(server.url, where=server.url, namespace="test", options={})
    connection = ZooKeeperConnection(place, ttl=60.0, clock=Clock(), changed=lambda: None)
    connection.connect(deadline=Clock().now() + PATIENCE)

    for _ in range(20):
        connection.hang_up()
        connection.ask(requests.Exists("/", None), deadline=Clock().now() + PATIENCE)

    connection.close(goodbye=True, deadline=Clock().now() + PATIENCE)
