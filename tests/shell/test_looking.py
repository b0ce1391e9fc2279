"""An answer is looked for before it is slept for, while that is seldom in vain."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from lockfast.platforms import here
from lockfast.runtime.blocking import BlockingSocket
from lockfast.runtime.clock import Clock
from lockfast.runtime.looking import SLEEPS, Looking

if TYPE_CHECKING:
    from collections.abc import Iterator

MANY = 2000


def looked_for(answers: int, *, late_every: int) -> int:
    """Return how many of so many answers were looked for, of which some came late."""
    looking, looks = Looking(), 0
    for number in range(answers):
        if looking.sleeps:
            looking.sleeps -= 1
            continue
        looks += 1
        if number % late_every == 0:
            looking.was_in_vain()
        else:
            looking.found()
    return looks


@pytest.mark.parametrize(
    ("late_every", "least", "most"),
    [
        pytest.param(MANY, MANY - 1, MANY, id="one"),
        pytest.param(10, MANY * 0.8, MANY, id="one in ten"),
        pytest.param(2, 1, MANY * 0.1, id="every other"),
        pytest.param(1, 1, 8 + MANY / SLEEPS, id="all"),
    ],
)
def test_looking_is_given_up_only_where_it_is_mostly_in_vain(
    late_every: int, least: float, most: float
):
    """One late answer, as on any machine with other work, must not slow down the next hundred."""
    assert least <= looked_for(MANY, late_every=late_every) <= most


def test_who_gave_up_looking_finds_out_that_it_pays_again():
    looking = Looking()
    for _ in range(20):
        looking.was_in_vain()
    for _ in range(SLEEPS):
        looking.found()

    looking.was_in_vain()

    assert looking.sleeps == 1


class Late(socket.socket):
    """A socket whose answer is not there yet for whoever only looks."""

    looks = 0

    def recv(self, size: int, flags: int = 0) -> bytes:
        if flags:
            self.looks += 1
            raise BlockingIOError
        return super().recv(size)


class Asking(BlockingSocket):
    """One whose answers are taken byte by byte."""

    __slots__ = ()

    def hears(self, data: bytes) -> bool:
        return self._receive(self._clock.now() + 60) == data


@pytest.fixture
def ends() -> Iterator[tuple[Late, socket.socket]]:
    ours, theirs = socket.socketpair()
    with theirs, Late(fileno=ours.detach()) as late:
        yield late, theirs


def test_an_answer_that_is_late_is_slept_for(ends: tuple[Late, socket.socket]):
    """And so is the next, without a look."""
    late, server = ends
    asking = Asking(late, Clock(), 0)
    server.sendall(b"1")
    assert asking.hears(b"1")
    looks = late.looks
    assert (looks > 0) == here.KEEPS_TIME  # else Python keeps it, and cannot look

    server.sendall(b"2")

    assert asking.hears(b"2")
    assert late.looks == looks
