"""A node that must not be asked along with the others costs no lease that is held.

Whoever comes new is refused, as long as the node itself says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from holdfast.backends.redlock._sync.backend import RedlockBackend
from holdfast.backends.redlock.greeting import Terms, greet
from holdfast.backends.redlock.node import Node
from holdfast.backends.redlock.requests import Question, Questions, Scripts
from holdfast.backends.redlock.round import Round
from holdfast.errors import BackendUnavailable, ConfigurationError, LockError
from holdfast.model import Claim, Grant, Renewal
from holdfast.testing import ManualClock

URL = "redlock://h1,h2,h3,h4,h5"
CLAIM = Claim("mine", "door", "client", "owner", weight=1, capacity=1, ttl=5.0)
ANSWERS = {
    "acquire": [1_000_000, 1, 1, 7],
    "renew": [1_000_000, 1, 1],
    "release": [1_000_000, 1, 1],
    "withdraw": [1_000_000, 1, 1],
    "inspect": [1_000_000, 1, 7, b"", b"", 0, 0, 0, 0],
}


def misfit(node: Node) -> LockError:
    """Greet a node that was set up by others, and return what is said of it."""
    steps = greet(node, [node] * 5, Terms(Questions("space"), 60.0, durable=False))
    next(steps)
    steps.send([b"run_id:abc"])
    with pytest.raises(ConfigurationError) as refused:
        steps.send([b"sha", [b"birth", 1, 30_000_000, b"new", 5, 0]])
    return refused.value


class FourAndAMisfit:
    """Nodes of which the last was greeted, and must not be asked."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = nodes
        self.wires: list[object] = []
        for one in nodes[:4]:
            one.scripts, one.counts = Scripts("birth"), True
        self.said = nodes[4].trouble = misfit(nodes[4])

    def is_ready(self, node: Node) -> bool:
        return node.number != 4

    def greet(self, _node: Node, *, deadline: float) -> None:
        del deadline
        raise self.said

    def ask(self, questions: Sequence[Question], *, decide, **_: object) -> Round:
        found = Round(self.nodes, decide)
        found.asked[:4] = [True] * 4
        for node in self.nodes[:4]:
            found.hear(node.number, [ANSWERS[one.verb] for one in questions])
        found.replies[4] = self.nodes[4].trouble
        return found

    def hang_up(self) -> None:
        """Nothing waits."""


@pytest.fixture
def backend():
    made = RedlockBackend(url=URL, location=URL, clock=ManualClock())
    nodes = FourAndAMisfit(made._nodes.nodes)
    for one in (made, made._asking, made._asking._tending, made._asking._rejoining):
        one._nodes = nodes  # type: ignore[assignment]
    yield made
    made._asking.stop()


def test_a_lease_is_renewed_and_released_while_one_node_is_a_misfit(backend):
    grant = Grant(CLAIM, 7, 5.0)

    assert backend.renew([grant], deadline=2000.0) == [Renewal.RENEWED]
    assert backend.release(grant, deadline=2000.0, tombstone=False)
    backend.withdraw(CLAIM, deadline=2000.0, tombstone=False)


def test_operators_see_what_is_held_while_one_node_is_a_misfit(backend):
    assert backend.inspect("door", deadline=2000.0).last_token == 7


def test_nothing_is_acquired_while_one_node_is_a_misfit(backend):
    with pytest.raises(ConfigurationError, match="max_ttl=30, and this client says max_ttl=60"):
        backend.try_acquire(CLAIM, deadline=2000.0)


def test_each_who_is_refused_is_told_of_its_own_name(backend):
    refused = []
    for name in ("door", "gate"):
        with pytest.raises(ConfigurationError) as caught:
            backend.try_acquire(replace(CLAIM, name=name), deadline=2000.0)
        refused.append(caught.value.about(name))

    assert [one.name for one in refused] == ["door", "gate"]
    assert {type(one) for one in refused} == {ConfigurationError}  # as it is shown in JSON


def test_the_doctor_tells_of_a_misfit(backend):
    [found] = backend.diagnose(deadline=2000.0)

    assert (found.level, found.subject) == ("error", "nodes")
    assert "max_ttl=30" in found.message


@pytest.mark.parametrize("error", [BackendUnavailable, ConfigurationError])
def test_a_misfit_that_was_shut_down_is_in_nobodys_way(backend, error):
    """Neither one that nothing listens for any more, nor one that lets us in no more."""
    backend._nodes.said = backend._nodes.nodes[4].trouble = error("redis://h5:6379 is away")

    assert isinstance(backend.try_acquire(CLAIM, deadline=2000.0), Grant)
