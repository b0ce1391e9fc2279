"""A wait that an event ends: the claim leaves the line, and nothing is sent while it waits."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from both_flavours import FLAVOURS, Flavour, number_waiting
from virtual import virtual

from lockfast import AcquireTimeout, NotAcquired, OutcomeUnknown, Renewed
from lockfast.testing import run_in_virtual_time
from lockfast_challenge.processes import eventually


@pytest.fixture(params=FLAVOURS)
def flavour(request):
    flavour = Flavour(request.param)
    yield flavour
    flavour.close()


def test_an_event_that_is_set_ends_the_wait_and_gives_up_the_place(flavour):
    locks, other = flavour.locks("memory://cancelling"), flavour.locks("memory://cancelling")
    held = other.lock("door").acquire()
    cancel = threading.Event()
    waiting = flavour.start(locks.lock("door").acquire, cancel=cancel)
    eventually(lambda: number_waiting(locks))

    cancel.set()

    with pytest.raises(NotAcquired, match="cancelled") as caught:
        waiting.result(10)
    assert not isinstance(caught.value, AcquireTimeout)
    assert caught.value.holders
    assert not other.inspect("door").line
    held.release()


def test_a_wait_that_can_be_cancelled_asks_the_store_no_more_often(flavour, tmp_path):
    url = f"sqlite://{tmp_path}/locks.db"
    locks, other = flavour.locks(url), flavour.locks(url)
    held = other.lock("door").acquire()
    backend = getattr(locks, "_inner", locks)._client.backend
    asked = []
    ask, backend.try_acquire = (
        backend.try_acquire,
        lambda *arguments, **options: asked.append(1) or ask(*arguments, **options),
    )
    cancel = threading.Event()
    waiting = flavour.start(locks.lock("door").acquire, timeout=1.0, cancel=cancel)

    with pytest.raises(AcquireTimeout):
        waiting.result(20)

    assert len(asked) <= 3
    held.release()


def test_an_event_that_was_set_before_takes_a_free_lock_all_the_same(flavour):
    """The event ends a wait, but a free lock needs no wait."""
    locks = flavour.locks("memory://cancelled-before")
    cancel = threading.Event()
    cancel.set()

    locks.lock("door").acquire(cancel=cancel).release()


def test_one_event_cancels_every_wait_that_was_given_it(flavour):
    locks, other = flavour.locks("memory://all-of-them"), flavour.locks("memory://all-of-them")
    held = other.lock("door").acquire()
    cancel = threading.Event()
    with ThreadPoolExecutor(5) as threads:
        waiting = [threads.submit(locks.lock("door").acquire, cancel=cancel) for _ in range(5)]
        eventually(lambda: number_waiting(locks) == 5)

        cancel.set()

        for one in waiting:
            with pytest.raises(NotAcquired):
                one.result(10)
    held.release()


class Broken:
    """Behaves like an event of a multiprocessing manager whose process is gone."""

    def is_set(self):
        raise EOFError


def test_an_event_that_fails_is_told_to_its_waiter_and_harms_no_lease(flavour):
    """The background checks the event, and also looks after all leases of the client."""
    renewed = []
    other = flavour.locks("memory://broken-event")
    locks = flavour.locks(
        "memory://broken-event",
        on_event=lambda event: isinstance(event, Renewed) and renewed.append(event.name),
    )
    lease, held = locks.lock("mine", ttl=0.6).acquire(), other.lock("door").acquire()

    with pytest.raises(EOFError):
        flavour.start(locks.lock("door").acquire, cancel=Broken()).result(10)

    before = len(renewed)
    eventually(lambda: len(renewed) > before + 3)
    assert lease.is_trusted
    assert not other.inspect("door").line
    held.release()
    lease.release()


def test_a_wait_is_cancelled_although_the_store_does_not_answer(flavour):
    """A claim in line survives an outage, and can still be cancelled."""
    other = flavour.locks("memory://cancelled-in-silence")
    locks = flavour.locks("memory://cancelled-in-silence")
    held = other.lock("door").acquire()
    cancel = threading.Event()
    waiting = flavour.start(locks.lock("door").acquire, cancel=cancel)
    eventually(lambda: number_waiting(locks))
    client = getattr(locks, "_inner", locks)._client

    def silent(*_arguments: object, **_options: object) -> None:
        raise OutcomeUnknown("no answer")

    client.backend.try_acquire = silent
    cancel.set()

    with pytest.raises(NotAcquired, match="cancelled"):
        waiting.result(10)
    held.release()


def test_who_does_not_wait_is_told_of_no_wait_however_slow_the_store_is():
    async def main() -> None:
        locks, backend = virtual()
        async with locks.lock("door"):
            backend.delay("try_acquire", 1.5)

            with pytest.raises(AcquireTimeout, match="'door' is held by") as caught:
                await asyncio.create_task(locks.lock("door").acquire(timeout=0))

        assert caught.value.waited == 0.0
        await locks.aclose()

    run_in_virtual_time(main())
