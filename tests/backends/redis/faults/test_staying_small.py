"""A client does not grow with the number of locks it has taken."""

from __future__ import annotations

import gc
import itertools

import pytest

from lockfast_challenge.processes import eventually

CYCLES = 100


def leaks(work) -> bool:
    """Return whether every round of work leaves objects behind.

    A leak leaves objects in every round. Objects that are created once do not count: a thread, a
    connection for the first wait, or objects of other code in this process.
    """
    work(CYCLES // 2)
    return all(growth_by(work) >= CYCLES // 2 for _ in range(3))


def growth_by(work) -> int:
    before = objects_alive()
    work(CYCLES)
    return objects_alive() - before


def objects_alive() -> int:
    gc.collect()
    return len(gc.get_objects())


@pytest.mark.parametrize("names", ["the same name", "distinct names"])
def test_locking_leaves_nothing_in_memory(flavour, server, names):
    locks = flavour.locks(server.url)
    numbers = itertools.count() if names == "distinct names" else itertools.repeat(0)

    def lock_and_release(count):
        for number in itertools.islice(numbers, count):
            locks.lock(f"door {number}").acquire().release()

    assert not leaks(lock_and_release)


def test_waiting_leaves_nothing_in_memory(flavour, server):
    one, other, third = (flavour.locks(server.url) for _ in range(3))
    first, second = one.lock("door"), other.lock("door")

    def hand_over(count):
        lease = first.acquire()
        for number in range(count):
            taker = (second, first)[number % 2]
            waiting = flavour.start(taker.acquire, timeout=20)
            eventually(lambda: third.inspect("door").line)
            lease.release()
            lease = waiting.result()
        lease.release()

    assert not leaks(hand_over)


def test_a_leak_is_seen():
    kept = []

    def leaking(count):
        kept.extend([] for _ in range(count))

    assert leaks(leaking)
