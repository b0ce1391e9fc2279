"""A node on other terms than the client's ends no lease that is held, and blocks nobody.

New claims are refused only while too few of the other nodes agree with the client.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from lockfast.backends.redlock._sync.backend import RedlockBackend
from lockfast.backends.redlock.node import Node, NodeTerms, handshake
from lockfast.backends.redlock.requests import NodeRequest, NodeRequests, Scripts
from lockfast.backends.redlock.round import Round
from lockfast.errors import BackendUnavailable, ConfigurationError, LockError
from lockfast.model import Claim, Grant, Renewal
from lockfast.runtime.clock import Clock

URL = "redlock://h1,h2,h3,h4,h5"
CLAIM = Claim("mine", "door", "client", "owner", weight=1, capacity=1, ttl=5.0)
ANSWERS = {
    "acquire": [1_000_000, 1, 1, 7],
    "renew": [1_000_000, 1, 1],
    "release": [1_000_000, 1, 1],
    "withdraw": [1_000_000, 1, 1],
    "inspect": [1_000_000, 1, 7, b"", b"", 0, 0, 0, 0],
}


def soon() -> float:
    return Clock().now() + 20


def misfit(node: Node, *, number: int = 5) -> LockError:
    """Do the handshake with a node that others set up, and return the error."""
    steps = handshake(node, [node] * 5, NodeTerms(NodeRequests("space"), 60.0, durable=False))
    next(steps)
    steps.send([b"run_id:abc"])
    with pytest.raises(ConfigurationError) as refused:
        steps.send([b"sha", [b"birth", 1, 30_000_000, b"new", number, 0, 0]])
    return refused.value


class SomeMisfits:
    """Nodes of which the last ones are known misfits, and must not be asked."""

    def __init__(self, nodes: Sequence[Node], *, misfits: int = 1, number: int = 5) -> None:
        self.nodes = nodes
        self.transports: list[object] = []
        self.fit = len(nodes) - misfits
        for one in nodes[: self.fit]:
            one.scripts, one.counts = Scripts("birth"), True
        for one in nodes[self.fit :]:
            self.said = one.trouble = misfit(one, number=number)

    def is_ready(self, node: Node) -> bool:
        return node.number < self.fit

    def greet(self, _node: Node, *, deadline: float) -> None:
        del deadline
        raise self.said

    def ask(self, questions: Sequence[NodeRequest], *, decide, **_: object) -> Round:
        found = Round(self.nodes, decide)
        for node in self.nodes[self.fit :]:
            found.replies[node.number] = node.trouble
        found.asked[: self.fit] = [True] * self.fit
        for node in self.nodes[: self.fit]:
            found.deliver(node.number, [ANSWERS[one.verb] for one in questions])
        return found

    def hang_up(self) -> None:
        """Do nothing, because no request is waiting."""


@pytest.fixture
def backend(request):
    """A backend with one misfit among five nodes, unless the test sets another number."""
    made = RedlockBackend(url=URL, location=URL, clock=Clock())
    nodes = SomeMisfits(made._nodes.nodes, **getattr(request, "param", {}))
    for one in (made, made._asking, made._asking._reconnect, made._asking._readmission):
        one._nodes = nodes  # type: ignore[assignment]
    yield made
    made._asking.stop()


def test_a_lease_is_renewed_and_released_while_one_node_is_a_misfit(backend):
    grant = Grant(CLAIM, 7, 5.0)

    assert backend.renew([grant], deadline=soon()) == [Renewal.RENEWED]
    assert backend.release(grant, deadline=soon(), tombstone=False)
    backend.withdraw(CLAIM, deadline=soon(), tombstone=False)


def test_operators_see_what_is_held_while_one_node_is_a_misfit(backend):
    assert backend.inspect("door", deadline=soon()).last_token == 7


@pytest.mark.parametrize(
    "backend", [{"misfits": 1}, {"misfits": 2}, {"misfits": 1, "number": 3}], indirect=True
)
def test_a_misfit_minority_counts_as_away(backend):
    assert isinstance(backend.try_acquire(CLAIM, deadline=soon()), Grant)


@pytest.mark.parametrize("backend", [{"misfits": 3}], indirect=True)
def test_nothing_is_acquired_while_a_majority_are_misfits(backend):
    with pytest.raises(ConfigurationError, match="max_ttl=30, and this client says max_ttl=60"):
        backend.try_acquire(CLAIM, deadline=soon())


@pytest.mark.parametrize(
    "backend",
    [{"misfits": 2, "number": 3}, {"misfits": 1, "number": 1}, {"misfits": 2, "number": 9}],
    indirect=True,
)
def test_nothing_is_acquired_while_misfits_could_be_a_majority_of_their_own(backend):
    """Misfits may form a majority with nodes that this client does not name.

    For example two of three nodes, or two of our nodes and three that this client does not name.
    """
    with pytest.raises(ConfigurationError, match="this client names 5"):
        backend.try_acquire(CLAIM, deadline=soon())


@pytest.mark.parametrize("backend", [{"misfits": 3}], indirect=True)
def test_the_refusal_says_how_a_node_gets_rid_of_terms_set_by_mistake(backend):
    with pytest.raises(ConfigurationError, match="run DEL space:redlock:node there"):
        backend.try_acquire(CLAIM, deadline=soon())


@pytest.mark.parametrize("backend", [{"misfits": 3}], indirect=True)
def test_each_who_is_refused_is_told_of_its_own_name(backend):
    refused = []
    for name in ("door", "gate"):
        with pytest.raises(ConfigurationError) as caught:
            backend.try_acquire(replace(CLAIM, name=name), deadline=soon())
        refused.append(caught.value.about(name))

    assert [one.name for one in refused] == ["door", "gate"]
    assert {type(one) for one in refused} == {ConfigurationError}  # the type is shown in JSON


@pytest.mark.parametrize("backend", [{"misfits": 3}], indirect=True)
def test_the_doctor_tells_of_misfits_that_are_too_many(backend):
    [found] = backend.diagnose(deadline=soon())

    assert (found.level, found.subject) == ("error", "nodes")
    assert "max_ttl=30" in found.message


@pytest.mark.parametrize("error", [BackendUnavailable, ConfigurationError])
def test_a_misfit_that_was_shut_down_is_in_nobodys_way(backend, error):
    """A misfit that was shut down, or that no longer lets us in, does not block new claims."""
    backend._nodes.said = backend._nodes.nodes[4].trouble = error("redis://h5:6379 is away")

    assert isinstance(backend.try_acquire(CLAIM, deadline=soon()), Grant)


def test_an_address_that_is_late_is_compared_with_the_others_too():
    """On a busy machine, each of two addresses may be in trouble when the other one is greeted."""
    one, other = Node(0, "h1"), Node(1, "h2")
    one.run_id, one.trouble = "abc", BackendUnavailable("h1 did not answer in time")
    terms = NodeTerms(NodeRequests("space"), 60.0, durable=False)
    steps = handshake(other, [one, other], terms)
    next(steps)

    with pytest.raises(ConfigurationError, match="are one server"):
        steps.send([b"run_id:abc"])
