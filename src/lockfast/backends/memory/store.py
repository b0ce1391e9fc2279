"""Doors in a dict: the reference store, shared by clients of one process.

A finalizer or a signal handler may call the store while the same thread is in the middle of a step.
Such a call works as usual at any other door. At the same door, a release or a withdrawal is
deferred until the step has ended. Any other call fails and may be repeated, because a door in the
middle of a step has no valid answer.
"""

from __future__ import annotations

import threading
import time
import weakref
from typing import TYPE_CHECKING, TypeVar

from lockfast.core.door import Door
from lockfast.errors import BackendUnavailable
from lockfast.runtime.worker import DeferredCalls

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lockfast.model import Claim, Grant, Held, Holder, Inspection, Renewal
    from lockfast.runtime.clock import Clock

T = TypeVar("T")


class MemoryStore:
    """Every method is one step under one mutex; waiters are woken after the mutex is released."""

    door = Door

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # Tokens grow with a clock that starts at wall-clock time, so that a new store under the
        # same name continues above the tokens of the old store. Expiry never reads the wall clock.
        self._epoch = time.time() - clock.now()
        self._doors: dict[str, Door] = {}
        self._mutex = threading.RLock()
        self._inside: set[str] = set()
        self._deferred = DeferredCalls()
        self._floor = 0
        self._listeners: dict[str, Callable[[str], object]] = {}

    def now(self) -> float:
        """Return the store's time."""
        return self._clock.now() + self._epoch

    def listen(self, client: str, wake: Callable[[str], object]) -> None:
        """Call `wake` with the id of each claim of the client that should ask again."""
        with self._mutex:
            self._listeners[client] = wake

    def stop_listening(self, client: str) -> None:
        """Send no more wakeups to the client; its holds end with their ttl."""
        with self._mutex:
            self._listeners.pop(client, None)

    def try_acquire(self, claim: Claim) -> Grant | Held:
        """See Door.arrive."""
        return self._step(claim.name, lambda door: door.arrive(claim, now=self.now()))

    def renew(self, grants: Sequence[Grant]) -> list[Renewal]:
        """See Door.renew."""
        return [self._renew(grant.claim) for grant in grants]

    def _renew(self, claim: Claim) -> Renewal:
        return self._step(
            claim.name, lambda door: door.renew(claim.id, now=self.now(), ttl=claim.ttl)
        )

    def hand_over(self, claim: Claim) -> Renewal:
        """See Door.hand_over."""
        return self._step(claim.name, lambda door: door.hand_over(claim, now=self.now()))

    def release(self, grant: Grant, *, tombstone: bool) -> bool:
        """See Door.release."""
        name, claim_id = grant.claim.name, grant.claim.id

        def work() -> bool:
            return self._step(
                name, lambda door: door.release(claim_id, now=self.now(), tombstone=tombstone)
            )

        if self._is_inside(name):
            self._deferred.add(work)
            return True
        return work()

    def withdraw(self, claim: Claim, *, tombstone: bool) -> None:
        """See Door.withdraw."""

        def work() -> None:
            self._step(
                claim.name, lambda door: door.withdraw(claim, now=self.now(), tombstone=tombstone)
            )

        if self._is_inside(claim.name):
            self._deferred.add(work)
        else:
            work()

    def break_(self, name: str, *, token: int | None, owner: str | None) -> tuple[Holder, ...]:
        """See Door.break_."""
        return self._step(name, lambda door: door.break_(now=self.now(), token=token, party=owner))

    def inspect(self, name: str) -> Inspection:
        """See Door.inspect."""

        def look(door: Door) -> Inspection:
            now = self.now()
            door.settle(now=now)
            return door.inspect(name, now=now)

        return self._step(name, look)

    def names(self, prefix: str) -> list[str]:
        """Return the names in use that start with the prefix, in byte order."""
        with self._mutex:
            # Copy the names first, because a finalizer that runs meanwhile may change the dict.
            names = [one for one in list(self._doors) if one.startswith(prefix)]
        return sorted(names, key=str.encode)

    def after_fork_in_child(self) -> None:
        """Start empty, because the child has a store of its own without the parent's holds."""
        self._mutex = threading.RLock()
        self._inside = set()
        self._deferred.clear()
        self._doors = {}

    def _is_inside(self, name: str) -> bool:
        with self._mutex:
            return name in self._inside

    def _step(self, name: str, act: Callable[[Door], T]) -> T:
        wakeups: list[tuple[Callable[[str], object], str]] = []
        is_outermost = False
        try:
            with self._mutex:
                is_outermost = not self._inside
                answer = self._at_door(name, act, wakeups)
        finally:
            for wake, claim_id in wakeups:
                wake(claim_id)
            if is_outermost:
                self._deferred.do()
        return answer

    def _at_door(
        self,
        name: str,
        act: Callable[[Door], T],
        wakeups: list[tuple[Callable[[str], object], str]],
    ) -> T:
        if name in self._inside:
            raise BackendUnavailable(
                "a signal handler or a finalizer asks in the middle of a step of the same "
                "thread at the same name; ask again outside of it",
                name=name,
            )
        try:
            # Mark the name before fetching its door, so that any call that interrupts us after this
            # finds the door in use.
            self._inside.add(name)
            door = self._doors.get(name) or self.door(token=self._floor)
            try:
                answer = act(door)
            finally:
                wakeups.extend(self._put_back(name, door))
        finally:
            self._inside.discard(name)
        return answer

    def _put_back(self, name: str, door: Door) -> list[tuple[Callable[[str], object], str]]:
        """Keep the door if it has any entry; return the wakeups to send."""
        if door.places:
            self._doors[name] = door
        else:
            # Keep a single number for all idle names together, because a million past names must
            # not take up memory. Compare that number without a call, so that nothing can interrupt
            # us between reading and writing it.
            if door.token > self._floor:  # noqa: PLR1730 - `max` is a call
                self._floor = door.token
            self._doors.pop(name, None)
        wakeups = [
            (wake, place.claim.id)
            for place in door.woken
            if (wake := self._listeners.get(place.claim.client)) is not None
        ]
        door.woken.clear()
        door.changed.clear()
        door.dropped.clear()
        return wakeups


# `memory://tests` names a store that all clients of this process share for as long as any of them
# exists. The names are module state, because a URL is all that two clients have in common.
_named: weakref.WeakValueDictionary[str, MemoryStore] = weakref.WeakValueDictionary()
_naming = threading.RLock()


def named_store(name: str, clock: Clock) -> MemoryStore:
    """Return the store of that name; an empty name means a new, private store."""
    if not name:
        return MemoryStore(clock)
    with _naming:
        store = _named.get(name)
        if store is None:
            store = _named[name] = MemoryStore(clock)
        return store
