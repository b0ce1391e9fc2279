"""A client is no larger for what it has locked, however often."""

from __future__ import annotations

import gc

import pytest

CYCLES = 300
"""A leak shows in each of them; what threads and connections are made meanwhile does not."""


def objects_alive() -> int:
    gc.collect()
    return len(gc.get_objects())


@pytest.mark.parametrize("names", ["the same name", "distinct names"])
def test_locking_leaves_nothing_in_memory(flavour, server, names):
    locks = flavour.locks(server.url)

    def lock_and_release(count):
        for number in range(count):
            lock = locks.lock(f"door {number if names == 'distinct names' else 0}")
            lock.acquire().release()

    lock_and_release(50)  # whatever is made once
    before = objects_alive()
    lock_and_release(CYCLES)

    assert objects_alive() - before < CYCLES / 2


def test_waiting_leaves_nothing_in_memory(flavour, server):
    first, second = (flavour.locks(server.url).lock("door") for _ in range(2))

    def hand_over(count):
        lease = first.acquire()
        for number in range(count):
            taker = (second, first)[number % 2]
            waiting = flavour.start(taker.acquire, timeout=20)
            lease.release()
            lease = waiting.result()
        lease.release()

    hand_over(50)
    before = objects_alive()
    hand_over(CYCLES)

    assert objects_alive() - before < CYCLES / 2
