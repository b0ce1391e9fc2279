"""Doors in a dict: the reference store, shared by clients of one process."""

from __future__ import annotations

import threading
import time
import weakref
from typing import TYPE_CHECKING, TypeVar

from holdfast.core.door import Door

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.model import Claim, Grant, Held, Holder, Inspection, Renewal
    from holdfast.runtime.clock import Clock

T = TypeVar("T")


class MemoryStore:
    """Every verb is one step under one mutex; waiters are woken after it is left."""

    door = Door

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # Tokens grow with a clock that looks like the wall's, so that a store made anew
        # under the same name goes on above the old one's tokens. Expiry never reads it.
        self._epoch = time.time() - clock.now()
        self._doors: dict[str, Door] = {}
        self._mutex = threading.Lock()
        self._floor = 0
        self._listeners: dict[str, Callable[[str], None]] = {}

    def now(self) -> float:
        """Return the store's time."""
        return self._clock.now() + self._epoch

    def listen(self, client: str, ring: Callable[[str], None]) -> None:
        """Let the client be told which of its claims should ask again."""
        with self._mutex:
            self._listeners[client] = ring

    def stop_listening(self, client: str) -> None:
        """Forget the client's ear; what it holds runs out by itself."""
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

    def release(self, grant: Grant, *, tombstone: bool) -> bool:
        """See Door.release."""
        claim = grant.claim
        return self._step(
            claim.name, lambda door: door.release(claim.id, now=self.now(), tombstone=tombstone)
        )

    def withdraw(self, claim: Claim, *, tombstone: bool) -> None:
        """See Door.withdraw."""
        self._step(
            claim.name, lambda door: door.withdraw(claim, now=self.now(), tombstone=tombstone)
        )

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
            return sorted((one for one in self._doors if one.startswith(prefix)), key=str.encode)

    def after_fork_in_child(self) -> None:
        """Be a store of the child's own: what the parent's threads hold is not here."""
        self._mutex = threading.Lock()
        self._doors = {}

    def _step(self, name: str, verb: Callable[[Door], T]) -> T:
        # No generator around it: one that is interrupted lives on in the traceback, with the
        # mutex, while the withdrawal waits for that.
        rings: list[tuple[Callable[[str], None], str]] = []
        with self._mutex:
            door = self._doors.get(name)
            if door is None:
                door = self.door(token=self._floor)
            try:
                answer = verb(door)
            finally:
                self._settle(name, door, rings)
        for ring, claim_id in rings:
            ring(claim_id)
        return answer

    def _settle(
        self, name: str, door: Door, rings: list[tuple[Callable[[str], None], str]]
    ) -> None:
        if door.places:
            self._doors[name] = door
        else:
            # Nothing is kept of an idle name but one number for all of them:
            # a million names must leave the process no larger.
            self._floor = max(self._floor, door.token)
            self._doors.pop(name, None)
        rings.extend(
            (ring, place.claim.id)
            for place in door.woken
            if (ring := self._listeners.get(place.claim.client)) is not None
        )
        door.woken.clear()
        door.changed.clear()
        door.dropped.clear()


# `memory://tests` names a store that all clients of this process share while one of them
# lives. Module state, because a URL is all that two clients have in common.
_named: weakref.WeakValueDictionary[str, MemoryStore] = weakref.WeakValueDictionary()
_naming = threading.Lock()


def named_store(name: str, clock: Clock) -> MemoryStore:
    """Return the store of that name; an empty name is a store of the caller's own."""
    if not name:
        return MemoryStore(clock)
    with _naming:
        store = _named.get(name)
        if store is None:
            store = _named[name] = MemoryStore(clock)
        return store
