"""Deferred requests, which a node must still receive, are handled by several threads."""

from __future__ import annotations

from lockfast.backends.redis.resp import ErrorReply
from lockfast.backends.redlock._async.backend import AsyncRedlockBackend
from lockfast.backends.redlock._sync.backend import RedlockBackend
from lockfast.backends.redlock.node import DeferredRequest, Node
from lockfast.backends.redlock.requests import NodeRequest
from lockfast.backends.redlock.round import DroppedReply, NodeReply, Round
from lockfast.errors import OutcomeUnknown
from lockfast.runtime.clock import Clock

FIRST, SECOND = (NodeRequest(verb, 0, 0, b"") for verb in ("release", "withdraw"))


def test_an_errand_that_comes_while_others_are_taken_is_not_lost():
    node = Node(0, "redis://h")
    node.asked_at = 0.0
    node.defer(FIRST, now=0.0, matters_for=5.0)
    kept = node._deferred_requests
    node.deferred(1.0)

    kept.append(DeferredRequest(SECOND, 5.0))  # as a thread would that read the queue earlier

    assert node.deferred(1.0) == [DeferredRequest(SECOND, 5.0)]


def told(node: Node, *, matters_until: float = 0.0) -> tuple[Round, NodeReply]:
    """Return a round in which the node was sent requests, and the recipient of its replies."""
    found = Round([node], lambda _: False)
    return found, NodeReply(found, node, [FIRST, SECOND], matters_until=matters_until)


def test_what_failed_on_the_way_is_told_again():
    """Requests that failed on the way are deferred once, whether or not a caller still waits."""
    for is_over in (False, True):
        node = Node(0, "redis://h")
        found, answer = told(node, matters_until=5.0)
        found.is_decided = is_over

        for _ in range(2):
            answer.set_exception(OutcomeUnknown("cut"))

        assert node.deferred(1.0) == [DeferredRequest(FIRST, 5.0), DeferredRequest(SECOND, 5.0)]


def test_what_a_node_could_not_do_is_told_again_where_nobody_waits_for_it():
    """Requests to a node that lost our scripts are deferred if no caller waits to repeat them."""
    unknown = ErrorReply("NOSCRIPT No matching script")
    for is_over, number in ((True, 2), (False, 0)):
        node = Node(0, "redis://h")
        found, answer = told(node, matters_until=5.0)
        found.is_decided = is_over

        for _ in range(2):
            answer.set_result(unknown)

        assert len(node.deferred(1.0)) == number


def test_what_does_not_matter_is_not_told_again():
    node = Node(0, "redis://h")

    told(node)[1].set_exception(OutcomeUnknown("cut"))

    assert not node.has_deferred


def test_an_errand_that_failed_is_not_lost():
    node, deferred_request = Node(0, "redis://h"), DeferredRequest(FIRST, 5.0)

    DroppedReply(node, deferred_request).set_exception(OutcomeUnknown("cut"))
    assert node.deferred(1.0) == [deferred_request]
    DroppedReply(node, deferred_request).set_result(ErrorReply("NOSCRIPT No matching script"))
    assert node.deferred(1.0) == [deferred_request]
    DroppedReply(node, deferred_request).set_result([1, 1, 1])
    assert not node.has_deferred


def test_a_child_has_locks_of_its_own():
    """A lock that a parent's thread held at the fork would never be released in the child."""
    for made in (RedlockBackend, AsyncRedlockBackend):
        url = "redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3"
        backend = made(url=url, location=url, clock=Clock())
        before = backend._claiming._state, backend._asking._readmission._state

        backend.after_fork_in_child()

        assert backend._claiming._state is not before[0]
        assert backend._asking._readmission._state is not before[1]
