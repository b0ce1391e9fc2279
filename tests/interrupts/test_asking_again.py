"""A thread that was interrupted may acquire the same lock at once: nothing is in its way.

The background cleans up whatever the interrupted acquire or release has left, sooner or later. In
these tests the background is late: it does nothing until the thread waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hammer import WARM_UP, steps
from interrupting import interrupt, places
from scenes import SCENES, TTL, Stage

from lockfast import Locks

# Python closes a socket that was dropped, and warns about it.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

PLACES = 60
"""Number of places in each scene, spread evenly."""


class LateBackground:
    """Keeps the background of a client from cleaning up until a claim waits."""

    def __init__(self, locks: Locks) -> None:
        self._client = locks._client
        self._clear_up = self._client.clear_up
        self._wait = self._client.backend.wait

    def __enter__(self) -> None:
        self._client.clear_up = lambda: None
        self._client.backend.wait = self._wait_for_it

    def _wait_for_it(self, *arguments: object, **options: object) -> None:
        self.__exit__()
        self._wait(*arguments, **options)

    def __exit__(self, *_: object) -> None:
        self._client.clear_up = self._clear_up
        self._client.backend.wait = self._wait
        self._client.watchdog.wake()


def one_lock(stage: Stage) -> None:
    with stage.locks.lock(stage.door, reentrant=False, timeout=TTL):
        pass


def both_names(stage: Stage) -> None:
    with stage.locks.all(stage.door, stage.gate, timeout=TTL):
        pass


def writing(stage: Stage) -> None:
    with stage.locks.rwlock(stage.door, timeout=TTL).write():
        pass


def reading(stage: Stage) -> None:
    with stage.locks.rwlock(stage.door).read():
        pass


def the_later_name(stage: Stage) -> None:
    with stage.locks.lock(stage.gate):
        pass


@pytest.mark.parametrize("store", ["memory", "sqlite"])
@pytest.mark.parametrize(
    ("act", "again"),
    [
        (SCENES["block"].act, one_lock),
        (SCENES["block_of_a_lock_that_lives_on"].act, one_lock),
        (SCENES["nested_blocks"].act, one_lock),
        (SCENES["several_names"].act, one_lock),
        (SCENES["several_names"].act, both_names),
        (the_later_name, both_names),
        (reading, writing),
    ],
    ids=lambda one: one.__name__,
)
def test_who_asks_after_an_interrupt_is_not_told_of_a_deadlock(
    tmp_path: Path, store: str, act: Callable[[Stage], None], again: Callable[[Stage], None]
) -> None:
    """A lease that no caller received, or that was released, is not held by the waiter."""
    with opened(store, tmp_path) as stage:
        for place in places_of(act, stage):
            with LateBackground(stage.locks):
                where = interrupt(lambda: act(stage), at=place)
                trying(lambda: again(stage), after=where)


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_who_asks_while_it_handles_an_interrupt_is_not_told_of_a_deadlock(
    tmp_path: Path, store: str
) -> None:
    """While an interrupt is handled, its traceback keeps the frames of the acquire alive."""
    with opened(store, tmp_path) as stage:
        for place in places_of(SCENES["block"].act, stage):
            with LateBackground(stage.locks):
                interrupt(
                    lambda: SCENES["block"].act(stage),
                    at=place,
                    handle=lambda place=place: trying(lambda: one_lock(stage), after=place),
                )


@contextmanager
def opened(store: str, directory: Path) -> Iterator[Stage]:
    url = f"memory://{directory.name}" if store == "memory" else f"sqlite://{directory}/locks.db"
    with Locks(url, ttl=TTL, request_timeout=TTL) as locks:
        yield Stage(locks, locks)


def places_of(act: Callable[[Stage], None], stage: Stage) -> Iterator[int]:
    """Yield the places at which to interrupt the action, with new names for each."""
    for _ in range(WARM_UP):
        act(stage)
    for place in steps(places(lambda: act(stage)), PLACES):
        stage.door, stage.gate = f"{place} door", f"{place} gate"
        yield place


def trying(again: Callable[[], None], *, after: object) -> None:
    try:
        again()
    except BaseException as error:
        error.add_note(f"interrupted at {after}")
        raise
