"""The event of the sync flavour: it wakes every waiter, whenever it is set."""

from __future__ import annotations

import threading

from lockfast.runtime.threads import WakeEvent

ROUNDS = 3_000


def test_a_wait_ends_by_its_time() -> None:
    event = WakeEvent()

    assert not event.wait(0.001)
    assert not event.is_set()


def test_who_waits_after_it_was_set_does_not_wait() -> None:
    event = WakeEvent()
    event.set()

    assert event.wait()
    event.clear()
    assert not event.wait(0.001)


def test_all_who_wait_are_woken() -> None:
    event, woken = WakeEvent(), []
    threads = [threading.Thread(target=lambda: woken.append(event.wait(20))) for _ in range(8)]
    for one in threads:
        one.start()

    event.set()
    for one in threads:
        one.join(20)

    assert woken == [True] * 8
    assert not event._gates


def test_no_ring_is_lost_between_two_threads() -> None:
    """Two threads set each other's event and wait for their own: a lost wakeup would stop both."""
    ping, pong = WakeEvent(), WakeEvent()

    def answer() -> None:
        for _ in range(ROUNDS):
            assert ping.wait(20)
            ping.clear()
            pong.set()

    other = threading.Thread(target=answer)
    other.start()
    for _ in range(ROUNDS):
        ping.set()
        assert pong.wait(20)
        pong.clear()
    other.join(20)

    assert not other.is_alive()
