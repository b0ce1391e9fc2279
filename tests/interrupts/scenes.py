"""The scenes to interrupt: every way to acquire a lock, to release it, and to close, one by one."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from lockfast import AcquireTimeout, Lease, Lock, LockError, Locks
from lockfast.core.sharding import Outlook
from lockfast.model import Crowd
from lockfast.urls import backend_class

TTL = 30.0
"""Longer than any scene: a name that is free within seconds was released, and did not expire."""


@dataclass
class Stage:
    """The client under test, a rival, and the names for which they compete."""

    locks: Locks
    rival: Locks
    whole: str = "door"
    door: str = "door#0"
    gate: str = "door#1"
    """The door and the gate are the two shards of the whole."""
    lease: Lease | None = None
    lasting: Lock | None = None
    """A lock that outlives the scene, as a lock at the top of a module does."""
    is_over: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True)
class Scene:
    """What the client does, and who holds the door before or meanwhile.

    A shared scene needs a store that lets several clients hold a name; a scene that does not depend
    on the store is played on a few.
    """

    act: Callable[[Stage], None]
    is_held: bool = False
    is_woken: bool = False
    has_lease: bool = False
    is_shared: bool = False
    has_gate: bool = False
    """Whether the client also takes the gate, or may take it."""
    outlook: type[Outlook] = Outlook
    """How a claim that waits for any shard interprets what it sees of the other shards."""
    stores: tuple[str, ...] = ()


def block(stage: Stage) -> None:
    with stage.locks.lock(stage.door):
        pass


def block_of_a_lock_that_lives_on(stage: Stage) -> None:
    with _lasting(stage):
        pass


def nested_blocks(stage: Stage) -> None:
    lock = _lasting(stage)
    with lock, lock:
        pass


def several_names(stage: Stage) -> None:
    with stage.locks.all(stage.door, stage.gate):
        pass


def any_shard(stage: Stage) -> None:
    """Wait in line at the first shard, which is held, until the second shard is found free."""
    sharded = stage.locks.sharded(stage.whole, shards=2)
    sharded._turns = itertools.count(0)
    with sharded as lease:
        assert lease.shard == 1


class Restless(Outlook):
    """Sees nothing vacant, but a faster line at the second shard."""

    def after(self, crowds: Sequence[Crowd]) -> Restless:
        return Restless(self.own, tuple(crowds), self.looks + 1, (0, 0))

    def vacant(self) -> list[int]:
        return []

    def faster_shard(self) -> int | None:
        return 1 if self.own == 0 else None


def another_line(stage: Stage) -> None:
    """Wait as `any_shard` does, but find the second shard free only after moving to its line."""
    any_shard(stage)


def permits(stage: Stage) -> None:
    with stage.locks.semaphore(stage.door, capacity=2):
        pass


def a_decorated_function(stage: Stage) -> None:
    @stage.locks.locked(stage.door, if_held="skip")
    def work() -> None:
        pass

    work()


def refused(stage: Stage) -> None:
    assert stage.locks.lock(stage.door).try_acquire() is None


def timed_out(stage: Stage) -> None:
    try:
        with stage.locks.lock(stage.door, timeout=0.01):
            raise AssertionError
    except AcquireTimeout:
        pass


def woken(stage: Stage) -> None:
    with stage.locks.lock(stage.door, timeout=20):
        pass


def released_by_hand(stage: Stage) -> None:
    """Release, and repeat the release after an interrupt, as a caller would."""
    lease, stage.lease = stage.lease, None
    try:
        lease.release()
    except LockError:
        raise
    except BaseException:
        with suppress(LockError):  # the interrupted release has completed
            lease.release()
        raise


SCENES = {
    one.act.__name__: one
    for one in (
        Scene(block),
        Scene(block_of_a_lock_that_lives_on),
        Scene(nested_blocks),
        Scene(several_names, has_gate=True),
        Scene(any_shard, is_held=True, has_gate=True, stores=("memory", "redis", "sqlite")),
        Scene(another_line, is_held=True, has_gate=True, outlook=Restless, stores=("memory",)),
        Scene(permits, is_shared=True),
        Scene(a_decorated_function),
        Scene(released_by_hand, has_lease=True),
        Scene(refused, is_held=True),
        Scene(timed_out, is_held=True),
        Scene(woken, is_woken=True),
    )
}


def scenes_of(store: str) -> list[str]:
    """Return the scenes that can be played on a store: not every store has permits."""
    is_shared = backend_class(store, flavour="_sync").capabilities.shared
    return [
        name
        for name, scene in SCENES.items()
        if (is_shared or not scene.is_shared) and store in (scene.stores or (store,))
    ]


def _lasting(stage: Stage) -> Lock:
    if stage.lasting is None or stage.lasting.name != stage.door:
        stage.lasting = stage.locks.lock(stage.door)
    return stage.lasting
