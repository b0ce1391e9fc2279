"""How refused or broken connections of the sync flavour affect the other connections."""

from __future__ import annotations

import socket
import weakref
from typing import Any

import pytest

from lockfast.backends.network.blocking_socket import TRUSTED_UNPOLLED_SECONDS
from lockfast.backends.redlock._sync.backend import RedlockBackend
from lockfast.backends.redlock._sync.reconnect import Reconnect
from lockfast.backends.redlock.nodes_threads import NodeConnection, Nodes, NodeTransport
from lockfast.backends.redlock.requests import NodeRequests, Scripts
from lockfast.backends.redlock.round import NodeReply, Round
from lockfast.errors import BackendUnavailable
from lockfast.testing import ManualClock

INSPECT = NodeRequests("space").inspect("door")
FULL = BackendUnavailable("max number of clients reached")


@pytest.fixture
def nodes() -> Nodes:
    """One node, which counts and accepts no more connections."""
    url, clock = "redlock://h1,h2,h3", ManualClock()
    made = RedlockBackend(url=url, location=url, clock=clock)
    node = made._nodes.nodes[0]
    node.scripts, node.counts = Scripts("birth"), True
    return Nodes([node], [made._nodes.transports[0]], clock)


@pytest.fixture(autouse=True)
def dialed(monkeypatch) -> list[float]:
    tried: list[float] = []

    def refuse(_transport: NodeTransport, *, deadline: float) -> Any:
        tried.append(deadline)
        raise FULL

    monkeypatch.setattr(NodeTransport, "connect", refuse)
    return tried


def connected(nodes: Nodes) -> NodeConnection:
    """Add an idle connection to the node, on which no reply comes, and return that connection."""
    transport = nodes.transports[0]
    ours, far_end = socket.socketpair()
    line = transport.register(NodeConnection(ours, nodes._clock, 0, nodes.nodes[0]))
    weakref.finalize(line, far_end.close)
    transport.put_back(line)
    return line


def break_line(nodes: Nodes, line: NodeConnection) -> None:
    line.shut()
    nodes._clock.advance(2 * TRUSTED_UNPOLLED_SECONDS)  # type: ignore[attr-defined]


def asked(nodes: Nodes) -> Round:
    return nodes.ask([INSPECT], decide=Round.is_heard, timeout=0.0)


def test_a_connection_too_many_costs_those_nothing_that_are_there(nodes):
    """A thread that can open no connection works without the node, which stays ready."""
    node = nodes.nodes[0]
    line = connected(nodes)
    assert nodes._kept(node, 1.0) is line  # as another thread would, during a call

    assert asked(nodes).replies == [FULL]

    assert nodes.is_ready(node)
    nodes.transports[0].put_back(line)
    assert nodes._kept(node, 1.0) is line


def test_one_who_tells_a_node_something_loses_it_for_nobody(nodes):
    """Deferred requests that cannot be sent now do not make the node count as away."""
    node, line = nodes.nodes[0], connected(nodes)
    assert nodes._kept(node, 1.0) is line

    Reconnect(nodes, ManualClock())._try(node)

    assert nodes.is_ready(node)


def test_a_node_to_which_no_connection_is_left_is_one_that_is_away(nodes):
    break_line(nodes, connected(nodes))

    asked(nodes)

    assert nodes.nodes[0].trouble is FULL


def obligation(nodes: Nodes) -> NodeConnection:
    """Return a connection to a slow node, on which a reply is overdue."""
    node, line = nodes.nodes[0], connected(nodes)
    line.pending.append(NodeReply(Round([node], Round.is_heard), node, [INSPECT]))
    line.sent_at, node.is_slow = nodes._clock.now(), True
    return line


@pytest.mark.parametrize("made", [obligation, connected])
def test_a_slow_node_whose_connection_broke_is_connected_to_again(nodes, made):
    """A slow node whose connection broke is connected to again, with or without a reply due."""
    break_line(nodes, made(nodes))
    nodes.nodes[0].is_slow = True

    asked(nodes)

    assert not nodes.is_ready(nodes.nodes[0])


def test_a_slow_node_is_left_alone_while_a_connection_to_it_is_in_use(nodes, dialed):
    node, line = nodes.nodes[0], connected(nodes)
    assert nodes._kept(node, 1.0) is line
    node.is_slow = True

    asked(nodes)

    assert nodes.is_ready(node)
    assert not dialed


def test_no_node_is_slow_in_a_child(nodes):
    """A forked child forgets which nodes are slow, or it would wait for its parent's replies."""
    obligation(nodes)

    nodes.after_fork_in_child()

    assert not nodes.nodes[0].is_slow


def test_lines_that_are_gone_are_not_remembered(nodes):
    transport = nodes.transports[0]
    line = connected(nodes)
    assert transport.has_connection()

    assert transport.take() is line
    del line

    assert not transport.has_connection()
