"""A finalizer or a signal handler that calls Lockfast during another call on its thread.

The new call cannot wait for the interrupted call, which continues only after the finalizer or the
handler has returned. So a release is never refused, any other request gets a reply or an honest
error, and nothing hangs.
"""

from __future__ import annotations

import contextlib
import gc
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import lockfast
from lockfast.backends.sqlite.presence import Presence
from lockfast.core.door import Door

JOBS = 400
HANDLED = 100


@pytest.fixture(params=["sqlite", "memory"])
def store(request, url, tmp_path) -> str:
    return url if request.param == "sqlite" else f"memory://{tmp_path.name}"


@pytest.fixture
def locks(store) -> Iterator[lockfast.Locks]:
    with lockfast.Locks(store) as client:
        yield client


@pytest.fixture
def other(store) -> Iterator[lockfast.Locks]:
    with lockfast.Locks(store) as client:
        yield client


@pytest.fixture
def strike(monkeypatch) -> Callable[[Callable[[], object]], None]:
    """Run an action once, in the middle of the next step at a door."""
    arrive = Door.arrive

    def place(act: Callable[[], object]) -> None:
        def struck(self, claim, **rest: Any):
            monkeypatch.setattr(Door, "arrive", arrive)
            act()
            return arrive(self, claim, **rest)

        monkeypatch.setattr(Door, "arrive", struck)

    return place


@pytest.mark.parametrize("name", ["door", "window"])
def test_a_release_inside_of_a_step_is_done_when_it_has_ended(locks, other, strike, name):
    """A release from a finalizer in mid-step is done once the interrupted step has ended."""
    leases: list[lockfast.Lease] = []
    thread = threading.Thread(target=lambda: leases.append(locks.lock(name).acquire()))
    thread.start()
    thread.join()
    if name == "window":
        other.lock("door").acquire()

    strike(leases[0].release)
    answer = locks.lock("door").try_acquire()

    assert answer is None
    assert other.inspect(name).holders == ()


def test_whoever_asks_inside_of_a_transaction_is_told_so(url, strike):
    """A request from inside a transaction gets an error; repeated afterwards, it is answered."""
    told: list[BaseException] = []

    def ask() -> None:
        try:
            locks.lock("window").try_acquire()
        except lockfast.BackendUnavailable as error:
            told.append(error)

    with lockfast.Locks(url) as locks, lockfast.Locks(url) as holder:
        holder.lock("door").acquire()
        strike(ask)

        answer = locks.lock("door").try_acquire()

        assert answer is None
        assert "signal handler" in str(told[0])
        assert locks.lock("window").try_acquire() is not None


class SecondClient:
    """A second client of the file, through which a finalizer acts in mid-transaction."""

    def __init__(self, url: str, kept: contextlib.ExitStack) -> None:
        # Many seconds, so that a futile wait for the transaction shows clearly.
        self.first, self.second, third = (
            kept.enter_context(lockfast.Locks(url, request_timeout=30.0)) for _ in range(3)
        )
        self.lease = self.second.lock("mine").acquire()
        self.third = third
        third.lock("door").acquire()
        self.told: list[BaseException] = []
        self.took = float("inf")

    def ask(self, act: Callable[[], object]) -> None:
        started = time.monotonic()
        try:
            act()
        except lockfast.BackendUnavailable as error:
            self.told.append(error)
        self.took = time.monotonic() - started


@pytest.fixture
def clients(url) -> Iterator[SecondClient]:
    with contextlib.ExitStack() as kept:
        yield SecondClient(url, kept)


@pytest.mark.parametrize(
    "act",
    [
        lambda one: one.second.lock("window").acquire(timeout=60),
        lambda one: one.second.lock("window").try_acquire(),
        lambda one: one.second.inspect("door"),
        lambda one: one.lease.renew(),
    ],
    ids=["acquire", "try_acquire", "inspect", "renew"],
)
def test_whoever_asks_by_another_client_inside_of_a_transaction_is_told_so_at_once(
    clients, strike, act
):
    """A request that waited for its own thread's transaction would never end.

    All other clients would wait as well, and leases would expire meanwhile.
    """
    strike(lambda: clients.ask(lambda: act(clients)))

    assert clients.first.lock("door").try_acquire() is None

    assert clients.took < 15.0
    assert [str(one) for one in clients.told if "signal handler" in str(one)]
    act(clients)


def test_a_release_by_another_client_inside_of_a_transaction_goes_on_by_itself(
    clients, strike, eventually
):
    strike(lambda: clients.ask(clients.lease.release))

    assert clients.first.lock("door").try_acquire() is None

    assert clients.took < 15.0
    eventually(lambda: not clients.third.inspect("mine").holders)


def test_a_client_that_a_thread_is_busy_with_is_not_waited_for_inside_of_a_transaction(
    clients, strike
):
    """The thread that is busy with the client may itself wait for the transaction to end."""
    second, is_busy, may_end = clients.second, threading.Event(), threading.Event()
    turn = second._client.backend._worker._turn

    def keep_busy() -> None:
        with turn.mutex:
            is_busy.set()
            may_end.wait(60)

    thread = threading.Thread(target=keep_busy)
    thread.start()
    is_busy.wait(60)
    strike(lambda: clients.ask(lambda: second.lock("window").try_acquire()))
    waiting = threading.Timer(30, may_end.set)
    waiting.start()

    assert clients.first.lock("door").try_acquire() is None

    assert not may_end.is_set()
    assert len(clients.told) == 1
    waiting.cancel()
    may_end.set()
    thread.join()


def test_another_client_is_not_opened_while_one_opens_the_file(path, url, monkeypatch):
    """A second client cannot open the file while the first is in the middle of opening it.

    The two would wait for each other, because the first client decides whether this is a new boot.
    """
    told: list[BaseException] = []
    with lockfast.Locks(url) as first, lockfast.Locks(url) as second:
        share = Presence.share

        def struck(self: Presence) -> None:
            monkeypatch.setattr(Presence, "share", share)
            try:
                second.lock("window").try_acquire()
            except lockfast.BackendUnavailable as error:
                told.append(error)
            share(self)

        monkeypatch.setattr(Presence, "share", struck)
        first.lock("door").acquire().release()

        assert len(told) == 1
        second.lock("window").acquire().release()


def test_whoever_asks_at_another_door_in_memory_gets_an_answer(strike):
    """In memory, only the door whose step was interrupted cannot answer."""
    with lockfast.Locks("memory://") as locks:
        got: list[object] = []
        strike(lambda: got.append(locks.lock("window").try_acquire()))

        lease = locks.lock("door").try_acquire()

        assert lease is not None
        assert isinstance(got[0], lockfast.Lease)


def test_leases_that_finalizers_release_are_all_free_in_the_end(locks):
    """Finalizers may release leases anywhere, even inside another acquire."""

    class Job:
        def __init__(self, number: int) -> None:
            self.lease = locks.lock(f"job {number}").acquire(timeout=0)
            self.me = self  # a cycle, as with a bound callback

        def __del__(self) -> None:
            self.lease.release()

    threshold = gc.get_threshold()
    gc.set_threshold(40)
    try:
        for number in range(JOBS):
            Job(number)
            with locks.lock("other"):
                pass
    finally:
        gc.set_threshold(*threshold)
    gc.collect()

    assert [one.name for one in locks.survey() if one.holders] == []


def test_a_handler_may_ask_while_its_thread_takes_and_gives_back_a_free_lock(locks):
    """Without contention a signal handler never meets a half-done transaction."""
    answers: list[object] = []

    def handle(*_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)  # one handler at a time
        lease = locks.lock("from the handler").try_acquire()
        answers.append(lease)
        if lease is not None:
            lease.release()
        signal.setitimer(signal.ITIMER_REAL, 0.0007)

    locks.lock("door").acquire().release()  # opens the file, which no handler may interrupt
    before = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.0007)
    try:
        while len(answers) < HANDLED:
            with locks.lock("door"):
                pass
    finally:
        signal.signal(signal.SIGALRM, signal.SIG_IGN)  # the last handler may have set it again
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

    assert all(isinstance(one, lockfast.Lease) for one in answers)
    assert locks.lock("door").try_acquire() is not None
