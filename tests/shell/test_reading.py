"""A listener that one thread at a time reads for all: how it waits, and what it leaves behind."""

from __future__ import annotations

import gc
import os
import signal
import socket
import threading
import warnings
import weakref

import pytest

from lockfast.backends.waiting.listener_threads import Listener, SelfPipe
from lockfast.runtime.clock import Clock

PATIENCE = 60.0


def test_a_pair_that_nobody_closed_is_closed_without_a_warning_when_it_is_collected():
    interrupts = SelfPipe()
    awake = interrupts._receiver
    ring = [interrupts]
    ring.append(ring)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del interrupts, ring
        gc.collect()
    assert awake.fileno() == -1


def test_there_is_no_pair_before_somebody_would_close_it(monkeypatch):
    """An interrupt could leave the pair to the garbage collector, which may run at any point."""
    made = []

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(socket, "socketpair", lambda: made.append(1))
    monkeypatch.setattr(weakref, "finalize", interrupted)
    with pytest.raises(KeyboardInterrupt):
        SelfPipe()

    assert not made


def test_a_wait_tells_an_interrupt_from_something_to_read():
    """The wait also reports an interrupt and data together, and works again for the same socket."""
    interrupts = SelfPipe()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        for _ in range(2):
            assert interrupts.wait(ours, 0.0) == (False, False)
            interrupts.give()
            assert interrupts.wait(None, PATIENCE) == (False, True)
            theirs.send(b"!")
            assert interrupts.wait(None, 0.0) == (False, False)
            assert interrupts.wait(ours, PATIENCE) == (True, False)
            interrupts.give()
            assert interrupts.wait(ours, PATIENCE) == (True, True)
            assert ours.recv(1) == b"!"
    interrupts.close()


def test_what_is_closed_is_waited_for_by_nobody():
    """Another socket may have the descriptor number of the closed socket by then."""
    interrupts = SelfPipe()
    with socket.socket() as connection:
        interrupts.wait(connection, 0.0)
    with pytest.raises(ValueError, match="negative"):
        interrupts.wait(connection, PATIENCE)
    interrupts.wait(None, 0.0)
    interrupts.close()
    with pytest.raises(ValueError, match="negative"):
        interrupts.wait(None, PATIENCE)


def test_a_signal_handler_may_wait_for_the_same():
    """The handler interrupts the wait of its own thread, and waits for the same socket itself."""
    interrupts = SelfPipe()
    ours, theirs = socket.socketpair()
    inner: list[tuple[bool, bool]] = []

    def handle(*_: object) -> None:
        inner.append(interrupts.wait(ours, 0.0))
        theirs.send(b"!")

    before = signal.signal(signal.SIGUSR1, handle)
    rung = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1))
    try:
        with ours, theirs:
            rung.start()
            assert interrupts.wait(ours, PATIENCE) == (True, False)
            assert inner == [(False, False)]
    finally:
        rung.join()
        signal.signal(signal.SIGUSR1, before)
        interrupts.close()


def test_who_listens_to_what_another_thread_closes_just_now_is_told_that_it_is_over(monkeypatch):
    """A close between a wakeup of the self-pipe and its read must not raise."""
    ours, theirs = socket.socketpair()
    reading = Listener(ours, clock=Clock())
    swallow = reading._interrupts._swallow

    def closed_before() -> None:
        reading.close()
        swallow()

    monkeypatch.setattr(reading._interrupts, "_swallow", closed_before)
    reading.interrupt()

    assert reading.listen(until=Clock.now() + PATIENCE) is False
    theirs.close()
