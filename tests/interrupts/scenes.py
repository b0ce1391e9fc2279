"""What is interrupted: every way to take a lock, to leave it, and to close, each on its own."""

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
"""Nothing that is free within seconds was freed by running out."""


@dataclass
class Stage:
    """One client on trial, another that gets in its way, and the names they meet at."""

    locks: Locks
    rival: Locks
    whole: str = "door"
    door: str = "door#0"
    gate: str = "door#1"
    """These two are the shards of the whole."""
    lease: Lease | None = None
    lasting: Lock | None = None
    """One that outlives the scene, as a lock at the top of a module does."""
    is_over: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True)
class Scene:
    """What the client does; who holds the door meanwhile, or until it waits, or before.

    Where it is shared, only a store can play it that lets several hold a name; and one that is
    no store's doing is played at a few.
    """

    act: Callable[[Stage], None]
    is_held: bool = False
    is_woken: bool = False
    has_lease: bool = False
    is_shared: bool = False
    has_gate: bool = False
    """Whether it takes the gate too, or may."""
    outlook: type[Outlook] = Outlook
    """How one who waits for any shard takes what it sees of the others."""
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
    """It stands in line at the first, which is held, until it finds that the other is free."""
    sharded = stage.locks.sharded(stage.whole, shards=2)
    sharded._turns = itertools.count(0)
    with sharded as lease:
        assert lease.shard == 1


class Restless(Outlook):
    """Sees nothing vacant, and the line at the second move on."""

    def after(self, crowds: Sequence[Crowd]) -> Restless:
        return Restless(self.own, tuple(crowds), self.looks + 1, (0, 0))

    def vacant(self) -> list[int]:
        return []

    def faster_shard(self) -> int | None:
        return 1 if self.own == 0 else None


def another_line(stage: Stage) -> None:
    """As above, but it leaves the first line for the second, and only then finds it free."""
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
    """Once begun, a release ends; before that, it is the caller's to call again."""
    lease, stage.lease = stage.lease, None
    try:
        lease.release()
    except LockError:
        raise
    except BaseException:
        with suppress(LockError):  # the one that was interrupted has done it
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
    """Return what can be played there: not every store has permits."""
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
