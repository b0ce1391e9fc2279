"""The hammer: interrupts a scene at each of its places, and checks what is left behind.

The tests use its short form. Its long form takes every place of every scene:

    python tests/interrupts/hammer.py redis://127.0.0.1:6379 sqlite:///path/to/locks.db memory://hammer
"""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

if __name__ == "__main__":
    sys.path.append(str(Path(__file__).parents[1] / "shared"))

from interrupting import interrupt, places
from scenes import SCENES, TTL, Scene, Stage, scenes_of

from lockfast import Lease, Locks
from lockfast.client._sync import sharded
from lockfast.core.sharding import Outlook
from lockfast_challenge.processes import eventually

PATIENT = 20.0
"""Request timeout, in seconds: generous, because a profile function slows everything down."""

LOOK_AGAIN = 0.005
"""Interval between checks whether a claim waits, in seconds; each check is a request."""

WARM_UP = 3
"""Rounds before the count of places: the first rounds connect, load scripts and start threads."""


def hammer(url: str, scene: Scene, *, at_most: int | None = None, **options: object) -> int:
    """Interrupt the scene at up to `at_most` places, spread evenly; return the number of places.

    Check after each interrupt that nothing is held, nothing waits, and both clients still work.
    """
    options = {"request_timeout": PATIENT, **options}
    with Locks(url, ttl=TTL, **options) as locks, Locks(url, ttl=TTL, **options) as rival:
        stage = Stage(locks, rival)
        for number in range(WARM_UP):
            with _set(stage, scene, f"warm-up {number}"):
                scene.act(stage)
        with _set(stage, scene, "counting"):
            # Count a few more, because the course of a scene depends on timing.
            count = places(lambda: scene.act(stage)) * 11 // 10
        spread = steps(count, at_most)
        for place in spread:
            with _set(stage, scene, f"at {place}"):
                where = interrupt(lambda: scene.act(stage), at=place)
            try:
                _check(stage, scene)
            except BaseException as error:
                error.add_note(f"interrupted at place {place}: {where}")
                raise
        return len(spread)


def hammer_close(url: str, *, at_most: int | None = None, **options: object) -> int:
    """Interrupt a close with one lease held and one released, and close again."""
    place, step = 0, 1
    while True:
        with Locks(url, ttl=TTL, **options) as rival:
            locks = Locks(url, ttl=TTL, **options)
            lock = locks.lock(f"door {place}")
            lock.acquire()
            if at_most is not None and place == 0:
                with Locks(url, ttl=TTL, **options) as other:
                    other.lock("counting").acquire()
                    step = _step(places(other.close), at_most)
            where = interrupt(locks.close, at=place)
            try:
                locks.close()
                rival.lock(lock.name).acquire(timeout=TTL / 2).release()
            except BaseException as error:
                error.add_note(f"interrupted at place {place}: {where}")
                raise
        if where is None:
            return place // step
        place += step


@contextmanager
def _set(stage: Stage, scene: Scene, name: str) -> Iterator[None]:
    """Use new names each time: leftovers of one scene must not affect the next."""
    stage.whole = f"door {name}"
    stage.door, stage.gate = f"{stage.whole}#0", f"{stage.whole}#1"
    lease = None
    if scene.is_held or scene.is_woken:
        lease = stage.rival.lock(stage.door).acquire()
    if scene.has_lease:
        # Not tested: an interrupt between the return of `acquire` and the assignment of its result
        # drops the lease, just as it would drop an open file; only `with` can prevent that.
        stage.lease = stage.locks.lock(stage.door).acquire()
    releaser = threading.Thread(target=_release_when_waited_for, args=(stage, lease))
    if lease is not None and scene.is_woken:
        releaser.start()
    sharded.Outlook = scene.outlook
    try:
        yield
    finally:
        sharded.Outlook = Outlook
        if lease is not None and scene.is_held:
            lease.release()
        if stage.lease is not None:
            stage.lease.release()  # the scene had not begun
        if releaser.ident is not None:
            stage.is_over.set()
            releaser.join()
            stage.is_over.clear()


def _release_when_waited_for(stage: Stage, lease: Lease) -> None:
    while not _is_waited_for(stage):
        if stage.is_over.wait(LOOK_AGAIN):
            break
    lease.release()


def _is_waited_for(stage: Stage) -> bool:
    if stage.locks.capabilities.fair:
        return bool(stage.rival.inspect(stage.door).line)
    # A store without a line does not list waiters; only the client that was refused knows.
    return any(one.stands for one in stage.locks._client.asking())


def steps(count: int, at_most: int | None) -> range:
    """Return the numbers of at most `at_most` places, spread evenly."""
    return range(0, count, _step(count, at_most))


def _step(count: int, at_most: int | None) -> int:
    """Return the distance between places that yields at most `at_most` places."""
    return 1 if at_most is None else max(1, math.ceil(count / at_most))


def _check(stage: Stage, scene: Scene) -> None:
    for name in (stage.door, stage.gate) if scene.has_gate else (stage.door,):
        eventually(lambda name=name: not _is_in_use(stage.rival, name))
        for locks in (stage.rival, stage.locks):
            locks.lock(name).acquire(timeout=TTL).release()
    client = stage.locks._client
    eventually(lambda: not (client.holds or client.asking() or client._left_behind))


def _is_in_use(locks: Locks, name: str) -> bool:
    inspection = locks.inspect(name)
    return bool(inspection.holders or inspection.line)


def main() -> None:
    for url in sys.argv[1:]:
        for name in scenes_of(url.partition(":")[0]):
            print(f"{url}: {name}: {hammer(url, SCENES[name])} places")  # noqa: T201 - it is a command
        print(f"{url}: closing: {hammer_close(url)} places")  # noqa: T201


if __name__ == "__main__":
    main()
