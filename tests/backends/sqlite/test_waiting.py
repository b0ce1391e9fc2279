"""Waiting in line is cheap and ends soon, by a doorbell with slow polling as a safety net."""

from __future__ import annotations

import threading
import time

import pytest

import lockfast
from lockfast.backends.sqlite.doorbell import Doorbell
from lockfast.core.door import ADMISSION_WINDOW_SECONDS

SECONDS = 10.0
MOST_STATEMENTS = 12
SOON = 2.0


class Waiter:
    """A thread that waits for the door through a client of its own."""

    def __init__(self, locks: lockfast.Locks, *, timeout: float = 30.0) -> None:
        self._lock = locks.lock("door", timeout=timeout)
        self._thread = threading.Thread(target=self._wait, daemon=True)
        self.entered_at: float | None = None
        self.error: BaseException | None = None
        self._thread.start()

    def _wait(self) -> None:
        try:
            with self._lock:
                self.entered_at = time.monotonic()
        except BaseException as error:  # noqa: BLE001 - reported by the test
            self.error = error

    def join(self) -> None:
        self._thread.join(60)
        assert not self._thread.is_alive()


@pytest.fixture
def clients(url):
    with lockfast.Locks(url) as holder, lockfast.Locks(url) as waiter:
        # Let both clients open the file first, so that only waiting is counted below.
        for one in (holder, waiter):
            one.lock("warm").acquire().release()
        yield holder, waiter


def test_ten_seconds_of_waiting_cost_at_most_twelve_statements(clients):
    """A waiter listens for its doorbell, and polls only slowly."""
    holder, waiter = clients
    statements: list[str] = []
    lease = holder.lock("door").acquire()

    waiter._client.backend._database.connection._sqlite.set_trace_callback(statements.append)
    waiting = Waiter(waiter, timeout=SECONDS)
    waiting.join()
    waiter._client.backend._database.connection._sqlite.set_trace_callback(None)

    lease.check()
    assert isinstance(waiting.error, lockfast.AcquireTimeout)
    assert waiting.error.waited >= SECONDS
    # Do not count the statements that leave the line when the time is up.
    last = len(statements) - 1 - statements[::-1].index("BEGIN IMMEDIATE")
    assert 0 < len(statements[:last]) <= MOST_STATEMENTS, statements


def seconds_to_hand_on(holder, waiter, eventually) -> float:
    """Release while another client waits; return the seconds until that client entered."""
    lease = holder.lock("door").acquire()
    waiting = Waiter(waiter)
    eventually(lambda: holder.inspect("door").line)

    released_at = time.monotonic()
    lease.release()
    waiting.join()

    assert waiting.error is None
    return waiting.entered_at - released_at


def test_a_release_rings_the_next_in_line(clients, eventually):
    """A release wakes the next waiter long before the waiter's next poll."""
    assert seconds_to_hand_on(*clients, eventually) < SOON < ADMISSION_WINDOW_SECONDS


def test_a_release_rings_only_the_one_it_admits(url, clients, eventually):
    """A release wakes only the waiter that it admits, so a line of any length costs one wakeup."""
    holder, waiter = clients
    rung: list[list[str]] = []
    with lockfast.Locks(url) as third:
        lease = holder.lock("door").acquire()
        first = Waiter(waiter)
        eventually(lambda: len(holder.inspect("door").line) == 1)
        second = Waiter(third)
        eventually(lambda: len(holder.inspect("door").line) == 2)
        bell = holder._client.backend._database.bell
        ring = bell.ring
        bell.ring = lambda addresses: (rung.append(list(addresses)), ring(rung[-1]))

        lease.release()
        first.join()
        second.join()

    assert [len(addresses) for addresses in rung] == [1]
    assert first.entered_at < second.entered_at


def test_a_waiter_whose_bell_is_never_heard_still_gets_in_within_the_window(
    clients, eventually, monkeypatch
):
    """Where no datagram arrives, as across network namespaces, waiters get in by slow polling."""
    monkeypatch.setattr(Doorbell, "ring", lambda _self, _addresses: None)

    assert seconds_to_hand_on(*clients, eventually) < ADMISSION_WINDOW_SECONDS + SOON


def test_a_stranger_at_the_bell_is_not_taken_for_a_release(clients, eventually):
    """A datagram without the row's nonce neither wakes the waiter nor lets it in."""
    holder, waiter = clients
    lease = holder.lock("door").acquire()
    waiting = Waiter(waiter)
    eventually(lambda: holder.inspect("door").line)
    port = waiter._client.backend._database.bell._socket.getsockname()[1]

    holder._client.backend._database.bell.ring([f"{port}:0123456789abcdef"])
    has_entered = waiting.entered_at is not None
    lease.release()
    waiting.join()

    assert not has_entered
    assert waiting.error is None
