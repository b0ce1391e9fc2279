"""What a node must still be told is kept and taken by several threads at once."""

from __future__ import annotations

from holdfast.backends.redlock._async.backend import AsyncRedlockBackend
from holdfast.backends.redlock._sync.backend import RedlockBackend
from holdfast.backends.redlock.node import Errand, Node
from holdfast.backends.redlock.requests import Question
from holdfast.runtime.clock import Clock

FIRST, SECOND = (Question(verb, 0, 0, b"") for verb in ("release", "withdraw"))


def test_an_errand_that_comes_while_others_are_taken_is_not_lost():
    node = Node(0, "redis://h")
    node.asked_at = 0.0
    node.owe(FIRST, now=0.0, owed_for=5.0)
    kept = node._errands
    node.errands(1.0)

    kept.append(Errand(SECOND, 5.0))  # by one who had looked it up before they were taken

    assert node.errands(1.0) == [SECOND]


def test_a_child_has_locks_of_its_own():
    """A thread of the parent's may have held them when it forked: nobody would let go of them."""
    for made in (RedlockBackend, AsyncRedlockBackend):
        url = "redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3"
        backend = made(url=url, location=url, clock=Clock())
        before = backend._claiming._state, backend._asking._rejoining._state

        backend.after_fork_in_child()

        assert backend._claiming._state is not before[0]
        assert backend._asking._rejoining._state is not before[1]
