"""A client spins for a reply before it sleeps, unless most replies come too late for that."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from lockfast.backends.network.blocking_socket import BlockingSocket
from lockfast.platforms import here
from lockfast.runtime.clock import Clock
from lockfast.runtime.timers import SPIN_BACKOFF_LIMIT, SpinBudget

if TYPE_CHECKING:
    from collections.abc import Iterator

MANY = 2000


def looked_for(answers: int, *, late_every: int) -> int:
    """Return for how many of these replies the client spun; every `late_every`th reply is late."""
    looking, looks = SpinBudget(), 0
    for number in range(answers):
        if looking.sleeps:
            looking.sleeps -= 1
            continue
        looks += 1
        if number % late_every == 0:
            looking.spin_failed()
        else:
            looking.found()
    return looks


@pytest.mark.parametrize(
    ("late_every", "least", "most"),
    [
        pytest.param(MANY, MANY - 1, MANY, id="one"),
        pytest.param(10, MANY * 0.8, MANY, id="one in ten"),
        pytest.param(2, 1, MANY * 0.1, id="every other"),
        pytest.param(1, 1, 8 + MANY / SPIN_BACKOFF_LIMIT, id="all"),
    ],
)
def test_looking_is_given_up_only_where_it_is_mostly_in_vain(
    late_every: int, least: float, most: float
):
    """One late reply, as on any busy machine, must not slow down the next hundred."""
    assert least <= looked_for(MANY, late_every=late_every) <= most


def test_who_gave_up_looking_finds_out_that_it_pays_again():
    looking = SpinBudget()
    for _ in range(20):
        looking.spin_failed()
    for _ in range(SPIN_BACKOFF_LIMIT):
        looking.found()

    looking.spin_failed()

    assert looking.sleeps == 1


class Late(socket.socket):
    """A socket whose reply is never there while the client spins."""

    looks = 0
    is_spinning = False

    def recv(self, size: int, flags: int = 0) -> bytes:
        if self.is_spinning:
            self.looks += 1
            raise BlockingIOError
        return super().recv(size, flags)


class Asking(BlockingSocket):
    """A connection whose replies are taken byte by byte."""

    __slots__ = ()

    def _spin_for(self, looking: SpinBudget, until: float) -> bytes | None:
        self._sock.is_spinning = True
        try:
            return super()._spin_for(looking, until)
        finally:
            self._sock.is_spinning = False

    def hears(self, data: bytes) -> bool:
        return self._receive(self._clock.now() + 60) == data


@pytest.fixture
def ends() -> Iterator[tuple[Late, socket.socket]]:
    ours, theirs = socket.socketpair()
    with theirs, Late(fileno=ours.detach()) as late:
        yield late, theirs


def test_an_answer_that_is_late_is_slept_for(ends: tuple[Late, socket.socket]):
    """After a late reply, the client sleeps for the next one at once, without spinning."""
    late, server = ends
    asking = Asking(late, Clock(), 0)
    server.sendall(b"1")
    assert asking.hears(b"1")
    looks = late.looks
    # Without the flag, Python implements the timeout itself, and spinning is not possible.
    assert (looks > 0) == here.HAS_NO_WAIT

    server.sendall(b"2")

    assert asking.hears(b"2")
    assert late.looks == looks
