"""A reply that none of our scripts gives is not believed, and no call waits for ever."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from lockfast.backends.network.codec import Misread
from lockfast.backends.redlock import nodes_aio, nodes_threads, replies
from lockfast.backends.redlock.node import Node
from lockfast.backends.redlock.requests import NodeRequests, Scripts
from lockfast.backends.redlock.round import NodeReply, Round
from lockfast.core.quorum import Verdict, verdict
from lockfast.errors import BackendMisbehaved
from lockfast.model import Claim
from lockfast.runtime.clock import Clock

CLAIM = Claim("mine", "door", "client", "owner", weight=1, capacity=1, ttl=10.0)
QUESTIONS = NodeRequests("space")
ACQUIRE = QUESTIONS.acquire(CLAIM, attempt=1)
REFUSED = [1, 1, 0, b"claim", b"owner", 1, 1, 1, 0]
HANGS = 60.0


class StandInWire:
    """A transport whose node gives the same reply to every request, a moment later."""

    owed = 0

    def __init__(self, reply: Any) -> None:
        self._reply = reply
        self.connection = self
        self.failures: list[Exception] = []

    def send_for(self, answer: NodeReply, _request: bytes, *, deadline: float) -> None:
        del deadline
        asyncio.get_running_loop().call_soon(self._tell, answer)

    def _tell(self, answer: NodeReply) -> None:
        try:
            answer.set_result(self._reply)
        except Exception as error:  # noqa: BLE001 - it breaks the connection
            self.failures.append(error)


def nodes_that_answer(*replies: Any) -> tuple[nodes_aio.Nodes, list[Any]]:
    nodes = [Node(number, f"redis://h{number}") for number in range(len(replies))]
    for one in nodes:
        one.scripts = Scripts("birth")
    transports: list[Any] = [StandInWire(one) for one in replies]
    return nodes_aio.Nodes(nodes, transports, Clock()), transports


def is_known(found: Round) -> bool:
    return verdict(found.votes(replies.vote)) is not Verdict.OPEN


def asked(nodes: nodes_aio.Nodes, decide: Any) -> Round:
    async def ask() -> Round:
        async with asyncio.timeout(HANGS):
            return await nodes.ask([ACQUIRE], decide=decide, timeout=0.05)

    return asyncio.run(ask())


@pytest.mark.parametrize("odd", [None, b"OK", 1, [], [1, 1], [1, 1, 1], [1, 1, 0, 5], REFUSED[:-1]])
def test_a_node_that_answers_oddly_is_heard_as_one_that_misbehaves(odd):
    """The other nodes decide, and the odd node's connection is closed.

    Data that follows an odd reply may still be a part of that reply.
    """
    nodes, transports = nodes_that_answer(odd, REFUSED, REFUSED)

    found = asked(nodes, is_known)

    assert isinstance(found.replies[0], BackendMisbehaved)
    assert "redis://h0" in str(found.replies[0])
    assert verdict(found.votes(replies.vote)) is Verdict.REFUSED
    assert [type(error) for one in transports for error in one.failures] == [Misread]


@pytest.mark.parametrize(
    ("question", "reply"),
    [
        (ACQUIRE, REFUSED),
        (ACQUIRE, [1, 1, 1, 7]),
        (ACQUIRE, [1, 0, 2, 7]),
        (QUESTIONS.renew(CLAIM), [1, 1, 2]),
        (QUESTIONS.raise_(CLAIM, token=7), [1, 1, 1]),
        (QUESTIONS.release(CLAIM, tombstone=True), [1, 1, 0]),
        (QUESTIONS.withdraw(CLAIM, tombstone=True), [1, 1, 1]),
        (QUESTIONS.break_("door", ["mine"]), [1, 1, 1]),
        (QUESTIONS.inspect("door"), [1, 1, 7, b"", b"", 0, 0, 0, 0]),
        (QUESTIONS.witness("birth", age=0.0), [1, 1, 5, 7, b"new"]),
        (QUESTIONS.admit(7), [0, 1]),
        (ACQUIRE, [-1]),
    ],
)
def test_what_the_scripts_answer_is_heard(question, reply):
    node = Node(0, "redis://h0")
    found = Round([node], Round.is_over)

    NodeReply(found, node, [question]).set_result(reply)

    assert found.replies == [[reply]]


def test_a_renewal_has_one_of_three_outcomes():
    node = Node(0, "redis://h0")
    found = Round([node], Round.is_over)

    with pytest.raises(Misread):
        NodeReply(found, node, [QUESTIONS.renew(CLAIM)]).set_result([1, 1, 3])

    assert isinstance(found.replies[0], BackendMisbehaved)


class Defect(Exception):
    """Stands for a defect in our own code."""


def fail(found: Round) -> bool:
    if found.answers:
        raise Defect
    return False


def test_whoever_asks_is_told_of_a_failure_to_decide():
    """The caller gets the error, and the connections that deliver the replies stay sound."""
    nodes, transports = nodes_that_answer(REFUSED, REFUSED, REFUSED)

    with pytest.raises(Defect):
        asked(nodes, fail)

    assert not any(one.failures for one in transports)


def test_whoever_asks_by_a_thread_is_told_of_a_failure_to_decide():
    def fail_at_once(_found: Round) -> bool:
        raise Defect

    with pytest.raises(Defect):
        nodes_threads.Nodes([], [], Clock()).ask([ACQUIRE], decide=fail_at_once, timeout=0.05)
