"""An interrupt at every point of a sync program where Python allows one.

Python allows an interrupt at the start of a function and after the return from each call. A
profiler therefore raises there, in the modules that a wait on Redis runs through: at the first such
point, then at the second, and so on.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Self

import pytest

import lockfast
from lockfast import AcquireTimeout, Lease, Locks
from lockfast_challenge.processes import eventually

HOME = Path(lockfast.__file__).parent
TOUCHED = {
    str(HOME / one)
    for one in (
        "backends/redis/connection_threads.py",
        "backends/waiting/listener_threads.py",
        "backends/network/blocking_socket.py",
        "backends/network/connection_threads.py",
        "backends/redis/_sync/waiting.py",
        "backends/waiting/_sync/wakeups.py",
    )
}


BRIEFLY = 0.03

POINTS = 20
"""A lower bound for the number of points; a busy machine passes fewer before the time is up."""


class Interrupted(BaseException):
    """Like KeyboardInterrupt, but raised by nothing else."""


class InterruptAt:
    """Raises `Interrupted` at the point with this number, counted in the `TOUCHED` files."""

    def __init__(self, number: int) -> None:
        self._left = number
        self.struck = False

    def __enter__(self) -> Self:
        sys.setprofile(self._check_master)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _check_master(self, frame: FrameType, event: str, _argument: object) -> None:
        if event not in ("call", "c_return") or frame.f_code.co_filename not in TOUCHED:
            return
        if frame.f_code.co_name == "__del__":
            return  # Python ignores exceptions there
        self._left -= 1
        if self._left == 0:
            self.struck = True
            raise Interrupted


EARLIER: set[threading.Thread] = set()
"""The threads that ran before the test."""


@pytest.fixture(autouse=True)
def _earlier_threads(monkeypatch) -> None:
    """Leave out the threads of earlier tests, whose clients a failure may keep alive."""
    monkeypatch.setattr(sys.modules[__name__], "EARLIER", set(threading.enumerate()))


def inbox_threads() -> list[threading.Thread]:
    found = [one for one in threading.enumerate() if one.name == "lockfast-inbox"]
    return [one for one in found if one not in EARLIER]


def open_inbox(locks: Locks, name: str) -> None:
    def is_open() -> bool:
        with pytest.raises(AcquireTimeout):
            locks.lock(name).acquire(timeout=2 * BRIEFLY)
        return locks._client.backend._inbox.receivers[0].subscription is not None

    eventually(is_open)


def close_in_time(one: Locks) -> None:
    closing = threading.Thread(target=one.close, daemon=True)
    closing.start()
    closing.join(10)
    assert not closing.is_alive(), "close() does not return"


def is_woken(locks: Locks, url: str) -> bool:
    """Return whether a release wakes a waiter of this client."""
    with Locks(url) as others:
        lease = others.lock("another").acquire()
        got: list[Lease] = []
        waiting = threading.Thread(target=lambda: got.append(locks.lock("another").acquire()))
        waiting.start()
        eventually(lambda: others.inspect("another").line)
        lease.release()
        waiting.join(10)
        return bool(got)


def test_an_interrupted_wait_leaves_the_inbox_as_it_was(url):
    """After an interrupted wait, messages still wake waiters, and the client can be closed."""
    holders, locks = Locks(url), Locks(url)
    points = 0

    with holders, holders.lock("door"):
        open_inbox(locks, "door")
        receiver = locks._client.backend._inbox.receivers[0]
        was_struck = True
        while was_struck:
            points += 1
            interrupt = InterruptAt(points)
            try:
                with interrupt:
                    locks.lock("door").acquire(timeout=BRIEFLY)
            except (Interrupted, AcquireTimeout):
                was_struck = interrupt.struck
            eventually(lambda: receiver.subscription is not None)
            assert receiver.subscription._reader is not threading.current_thread()
            assert threading.current_thread() not in receiver.subscription._attending
            assert len(inbox_threads()) <= 2  # a broken thread may still be ending

    assert is_woken(locks, url)
    close_in_time(locks)
    eventually(lambda: not inbox_threads())
    assert points > POINTS


def test_an_interrupted_close_leaves_no_thread_and_can_be_repeated(url):
    """Wherever an interrupt strikes `close`, a second `close` leaves no thread behind."""
    with Locks(url) as holders, holders.lock("door"):
        points, was_struck = 0, True
        while was_struck:
            points += 1
            locks = Locks(url)
            open_inbox(locks, "door")
            backend = locks._client.backend
            interrupt = InterruptAt(points)
            try:
                with interrupt:
                    locks.close()
            except Interrupted:
                locks.close()
            was_struck = interrupt.struck
            eventually(lambda: not inbox_threads())
            assert backend._transport._idle.take() is None

    assert points > 5


def test_an_interrupted_beginning_leaves_one_background(url):
    """An interrupt while the listener thread starts leaves no second and no forgotten thread."""
    with Locks(url) as holders, holders.lock("door"):
        points, was_struck = 0, True
        while was_struck:
            points += 1
            locks = Locks(url)
            interrupt = InterruptAt(points)
            try:
                with interrupt:
                    locks.lock("door").acquire(timeout=BRIEFLY)
            except (Interrupted, AcquireTimeout):
                was_struck = interrupt.struck
            open_inbox(locks, "door")
            close_in_time(locks)
            eventually(lambda: not inbox_threads())

    assert points > POINTS
