# Generated from src/lockfast/backends/redlock/_async/connecting.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""The way to each node, from where it is."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from lockfast.backends.redis.addresses import understood
from lockfast.backends.redis.connection.threads import kind_of_connection
from lockfast.backends.redlock.greeting import greet
from lockfast.backends.redlock.node import Node
from lockfast.backends.redlock.nodes.threads import Nodes, NodeWire

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.backends.redis.addresses import Address
    from lockfast.backends.redlock.greeting import Terms
    from lockfast.runtime.clock import Clock


def ways_to(addresses: Sequence[Address], terms: Terms, clock: Clock) -> Nodes:
    """Return the ways to all of them; nothing is connected yet."""
    nodes = [Node(number, one.where) for number, one in enumerate(addresses)]
    wires = []
    for node, address in zip(nodes, addresses, strict=True):
        kind = kind_of_connection(tls=address.tls, is_socket="path" in address.options)
        wires.append(
            NodeWire(
                kind=kind,
                options=understood(address.options, by=kind),
                clock=clock,
                where=address.where,
                greet=partial(greet, node, nodes, terms),
            )
        )
    return Nodes(nodes, wires, clock)
