"""A holder or a waiter that is killed or frozen: who is let in then, and when."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

import pytest

import lockfast
from lockfast.backends.sqlite.wait_schedule import LIVENESS_CHECK_SECONDS
from lockfast.core.door import ADMISSION_WINDOW_SECONDS

SOON = 2.0
"""In seconds; less than an admission window, after which every waiter looks again by itself."""


def boot_time() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def in_line(locks: lockfast.Locks, name: str) -> list[int]:
    return [waiter.owner.pid for waiter in locks.inspect(name).line]


@pytest.fixture
def watcher(url):
    with lockfast.Locks(url) as locks:
        yield locks


def test_a_killed_holder_frees_its_place_for_a_waiter_within_a_second(
    puppet, url, watcher, eventually
):
    """As users of flock expect, kill -9 frees the lock, whatever its ttl."""
    holder, waiter = puppet(url), puppet(url)
    token = holder.ask("acquire", "door", ttl=30)
    waiter.tell("acquire", "door", timeout=20)
    eventually(lambda: in_line(watcher, "door") == [waiter.pid])

    holder.kill()

    assert waiter.answer(within=SOON) > token


def test_a_killed_holder_frees_its_place_for_one_who_tries_once(puppet, url, watcher):
    """A client that comes after the kill gets the lock at its first attempt."""
    holder = puppet(url)
    token = holder.ask("acquire", "door", ttl=30)

    holder.kill()
    lease = watcher.lock("door").try_acquire()

    assert lease is not None
    assert lease.token > token


def test_a_killed_holder_of_many_names_frees_them_all(puppet, url, watcher):
    """The death of a holder frees all of its names at once, without waiting for any ttl."""
    holder = puppet(url)
    names = [f"door {number}" for number in range(20)]
    for name in names:
        holder.ask("acquire", name, ttl=30)

    holder.kill()
    taken = [watcher.lock(name).try_acquire() for name in names]

    assert None not in taken


def test_who_waits_a_moment_at_a_time_is_not_kept_out_by_the_dead(puppet, url, watcher, eventually):
    """A client whose attempts are shorter than a liveness check still gets past dead waiters."""
    holder, waiter = puppet(url), puppet(url)
    token = holder.ask("acquire", "door", ttl=3600)
    waiter.tell("acquire", "door", timeout=3600)
    eventually(lambda: in_line(watcher, "door") == [waiter.pid])
    for one in (holder, waiter):
        one.kill()
    lock = watcher.lock("door", timeout=LIVENESS_CHECK_SECONDS / 2)

    def is_taken() -> bool:
        with suppress(lockfast.AcquireTimeout):
            return lock.acquire().token > token
        return False

    eventually(is_taken)


@pytest.mark.parametrize("dead", [1, 3])
def test_killed_waiters_at_the_front_are_passed_over_within_a_second(
    puppet, url, watcher, eventually, dead
):
    """The line waits for no dead waiter, however many of them are at its front."""
    crowd = [puppet(url) for _ in range(dead + 1)]
    lease = watcher.lock("door").acquire()
    for number, one in enumerate(crowd, 1):
        one.tell("acquire", "door", timeout=20)
        eventually(lambda number=number: len(in_line(watcher, "door")) == number)
    *front, last = crowd

    for one in front:
        os.kill(one.pid, signal.SIGKILL)
    lease.release()

    assert last.answer(within=SOON) > lease.token


def test_a_frozen_holder_keeps_the_lock_until_its_ttl(puppet, url, watcher, eventually):
    """A frozen holder may wake and act, so nobody else gets in before the holder's deadline."""
    holder, waiter = puppet(url, ttl=4), puppet(url)
    holder.ask("acquire", "door")
    waiter.tell("acquire", "door", timeout=20)
    eventually(lambda: in_line(watcher, "door") == [waiter.pid])

    holder.freeze()
    stopped_at = boot_time()
    [frozen] = watcher.inspect("door").holders
    waiter.answer(within=frozen.remaining + SOON)

    assert boot_time() - stopped_at >= frozen.remaining - 0.05


def test_a_holder_that_was_frozen_past_its_ttl_hears_of_it_and_harms_nobody(puppet, url, watcher):
    """A holder frozen past its ttl learns of the loss at its next call; its successor is spared."""
    holder = puppet(url, ttl=0.5)
    token = holder.ask("acquire", "door")
    holder.freeze()
    successor = watcher.lock("door").acquire(timeout=10)

    holder.thaw()
    with pytest.raises(lockfast.LeaseLost) as told:
        holder.ask("check", "door")
    with pytest.raises(lockfast.LeaseLost):
        holder.ask("release", "door")

    assert (told.value.reason, told.value.token) == ("expired", token)
    assert successor.token > token
    assert [one.token for one in watcher.inspect("door").holders] == [successor.token]
    successor.check()


def test_a_holder_that_was_frozen_is_not_trusted_when_it_wakes(puppet, url, watcher):
    """A lease stops being trusted by the clock alone, without any call to Lockfast."""
    holder = puppet(url, ttl=0.5)
    holder.ask("acquire", "door")
    holder.freeze()
    watcher.lock("door").acquire(timeout=10)

    holder.thaw()

    assert holder.ask("is_trusted", "door") is False


def test_a_frozen_waiter_is_passed_over_and_joins_again(puppet, url, watcher, eventually):
    """A frozen waiter costs the line one admission window, and joins again when it wakes."""
    frozen, behind = puppet(url), puppet(url)
    lease = watcher.lock("door").acquire()
    for one in (frozen, behind):
        one.tell("acquire", "door", timeout=20)
        eventually(lambda one=one: one.pid in in_line(watcher, "door"))
    frozen.freeze()

    lease.release()
    second = behind.answer(within=ADMISSION_WINDOW_SECONDS + SOON)
    frozen.thaw()
    eventually(lambda: in_line(watcher, "door") == [frozen.pid])
    behind.ask("release", "door")
    third = frozen.answer(within=SOON)

    assert lease.token < second < third
