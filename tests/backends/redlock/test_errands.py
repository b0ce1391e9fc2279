"""What a node must still be told is kept and taken by several threads at once."""

from __future__ import annotations

from lockfast.backends.redis.resp import Refusal
from lockfast.backends.redlock._async.backend import AsyncRedlockBackend
from lockfast.backends.redlock._sync.backend import RedlockBackend
from lockfast.backends.redlock.node import Errand, Node
from lockfast.backends.redlock.requests import Question
from lockfast.backends.redlock.round import Answer, Dropped, Round
from lockfast.errors import OutcomeUnknown
from lockfast.runtime.clock import Clock

FIRST, SECOND = (Question(verb, 0, 0, b"") for verb in ("release", "withdraw"))


def test_an_errand_that_comes_while_others_are_taken_is_not_lost():
    node = Node(0, "redis://h")
    node.asked_at = 0.0
    node.owe(FIRST, now=0.0, owed_for=5.0)
    kept = node._errands
    node.errands(1.0)

    kept.append(Errand(SECOND, 5.0))  # by one who had looked it up before they were taken

    assert node.errands(1.0) == [Errand(SECOND, 5.0)]


def told(node: Node, *, owed_until: float = 0.0) -> tuple[Round, Answer]:
    """Return a round in which the node was told something, and what takes its answer."""
    found = Round([node], lambda _: False)
    return found, Answer(found, node, [FIRST, SECOND], owed_until=owed_until)


def test_what_failed_on_the_way_is_told_again():
    """Once, although it is said of each request that it failed; also when nobody waits for it."""
    for is_over in (False, True):
        node = Node(0, "redis://h")
        found, answer = told(node, owed_until=5.0)
        found.is_decided = is_over

        for _ in range(2):
            answer.set_exception(OutcomeUnknown("cut"))

        assert node.errands(1.0) == [Errand(FIRST, 5.0), Errand(SECOND, 5.0)]


def test_what_a_node_could_not_do_is_told_again_where_nobody_waits_for_it():
    """It knew no script of ours any more; one who waits would greet it and say it anew."""
    unknown = Refusal("NOSCRIPT No matching script")
    for is_over, number in ((True, 2), (False, 0)):
        node = Node(0, "redis://h")
        found, answer = told(node, owed_until=5.0)
        found.is_decided = is_over

        for _ in range(2):
            answer.set_result(unknown)

        assert len(node.errands(1.0)) == number


def test_what_does_not_matter_is_not_told_again():
    node = Node(0, "redis://h")

    told(node)[1].set_exception(OutcomeUnknown("cut"))

    assert not node.has_errands


def test_an_errand_that_failed_is_not_lost():
    node, errand = Node(0, "redis://h"), Errand(FIRST, 5.0)

    Dropped(node, errand).set_exception(OutcomeUnknown("cut"))
    assert node.errands(1.0) == [errand]
    Dropped(node, errand).set_result(Refusal("NOSCRIPT No matching script"))
    assert node.errands(1.0) == [errand]
    Dropped(node, errand).set_result([1, 1, 1])
    assert not node.has_errands


def test_a_child_has_locks_of_its_own():
    """A thread of the parent's may have held them when it forked: nobody would let go of them."""
    for made in (RedlockBackend, AsyncRedlockBackend):
        url = "redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3"
        backend = made(url=url, location=url, clock=Clock())
        before = backend._claiming._state, backend._asking._rejoining._state

        backend.after_fork_in_child()

        assert backend._claiming._state is not before[0]
        assert backend._asking._rejoining._state is not before[1]
