"""Processes that are killed, frozen, forked, cancelled and interrupted."""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType

import pytest
from interrupting import is_on_trial

from holdfast import LeaseLost, Locks
from holdfast.challenge.eventually import eventually


@pytest.fixture
def holder(flavour, puppet, url):
    return puppet(flavour.name, url, ttl=2.0)


def test_a_holder_that_is_killed_frees_the_name_at_once(holder, rivals):
    """The system closes its connection: long before the ttl, as users of flock expect."""
    holder.ask("acquire", rivals.name)
    waiter = rivals.waiting(ttl=60.0)

    holder.kill()

    waiter.result(20).release()


def test_a_holder_that_is_frozen_loses_the_name_after_its_ttl_and_is_told(holder, rivals):
    """The server ends a session from which no heartbeat came."""
    holder.ask("acquire", rivals.name)
    began = time.monotonic()
    holder.freeze()

    successor = rivals.locks(ttl=60.0).lock(rivals.name).acquire(timeout=30)

    # Not before the holder, had it run, would have stopped by itself.
    assert time.monotonic() - began > 2.0 * 0.6
    holder.thaw()
    with pytest.raises(LeaseLost):
        holder.ask("check", rivals.name)
    successor.check()
    assert not rivals.is_free()


def test_a_forked_child_holds_nothing_and_takes_nothing_away(flavour, puppet, url, rivals):
    """It has its own session, and closes it; the parent's lives on."""
    holder = puppet(flavour.name, url, ttl=6)
    holder.ask("acquire", rivals.name)
    child = holder.fork()
    with pytest.raises(LeaseLost) as told:
        child.ask("check", rivals.name)
    child.ask("acquire", f"{rivals.name} child", timeout=20)
    child.ask("close")
    child.kill()

    before = holder.ask("renewals")
    eventually(lambda: holder.ask("renewals") >= before + 2)

    assert told.value.reason == "forked"
    holder.ask("check", rivals.name)
    assert not rivals.is_free()
    holder.ask("release", rivals.name)
    assert rivals.is_free()


def test_an_interrupted_acquire_costs_nobody_a_lease(url, name):
    """Also in the middle of a request: another thread than the interrupted one sends it."""
    other = Locks(url, request_timeout=10.0)
    locks = Locks(url, ttl=60.0, request_timeout=10.0)
    held = other.lock(name).acquire()
    mine = locks.lock(f"{name} mine").acquire()
    session = locks._client.backend._session

    def interrupt(_: int, frame: FrameType | None) -> None:
        if is_on_trial(frame):
            raise InterruptedError
        signal.setitimer(signal.ITIMER_REAL, 0.001)  # nobody would hear of it here

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for number in range(30):
            with pytest.raises(InterruptedError):  # noqa: PT012 - not struck before it is expected
                signal.setitimer(signal.ITIMER_REAL, 0.001 + number * 0.0011)
                locks.lock(name).acquire(timeout=20)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

    mine.check()
    assert locks._client.backend._session is session
    held.release()
    eventually(lambda: not other.inspect(name).holders, what="nothing is left behind")
    mine.release()
    other.close()
    locks.close()


def test_a_block_that_outlives_the_close_of_its_client_is_not_robbed(url, name):
    """Only a thread can be in such a block; the server ends its session a ttl later."""
    locks, other = Locks(url, ttl=2.0), Locks(url, ttl=60.0)
    inside, leave = threading.Event(), threading.Event()
    told: list[BaseException] = []

    def work() -> None:
        try:
            with locks.lock(name):
                inside.set()
                leave.wait(30)
        except LeaseLost as error:
            told.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    assert inside.wait(20)
    other.inspect(name)  # it has connected
    began = time.monotonic()
    locks.close()
    early = other.lock(name).try_acquire()
    assert early is None or time.monotonic() - began > 1.0

    other.lock(name).acquire(timeout=30)
    leave.set()
    thread.join()

    assert [one.reason for one in told] == ["closed"]
    other.close()
