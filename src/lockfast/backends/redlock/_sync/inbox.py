# Generated from src/lockfast/backends/redlock/_async/inbox.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""What a client hears from the nodes: that a name it waits for is free.

A node wakes one who waits, and the next one after that: `scripts/waking.lua`. Each node is listened
to by a task or thread of its own, since any of them may be the one that tells; they are there
while somebody waits. A message is a hint. It is lost if nobody listens, so after every
subscription all waiting claims ask again.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from lockfast._sync.wakeups import Wakeups
from lockfast.core.backoff import delay
from lockfast.errors import LockError
from lockfast.runtime import threads as runtime

if TYPE_CHECKING:
    from lockfast.backends.redis.requests import Keys
    from lockfast.backends.redis.subscription.threads import Subscription
    from lockfast.backends.redlock.nodes.threads import Nodes
    from lockfast.model import Claim
    from lockfast.runtime.clock import Clock

IDLE = 30.0
"""With nobody waiting nobody listens after so long."""

REQUEST = 1.0
"""As long may it take to subscribe."""


@dataclass(slots=True)
class Waiting:
    """A claim that was refused, since when, and when it last asked all nodes."""

    claim: Claim
    since: float
    looked_at: float
    opens_at: float = 0.0
    """When a majority of the nodes will have opened that a min_hold keeps closed."""


class Ear:
    """One run of listening to one node; it exists before its task does."""

    def __init__(self) -> None:
        self.stopping = runtime.Event()
        self.subscription: Subscription | None = None
        self.task: runtime.Task | None = None

    def is_alive(self) -> bool:
        """Whether it can be relied on."""
        return self.task is not None and self.task.is_alive()


class Inbox:
    """Rings the claims that should ask again."""

    def __init__(self, nodes: Nodes, keys: Keys, clock: Clock) -> None:
        self._nodes = nodes
        self._keys = keys
        self._clock = clock
        self.name = os.urandom(8).hex()
        self._state = runtime.StateLock()
        self._wakeups = Wakeups(clock)
        self._waiting: dict[str, Waiting] = {}
        self._ears: dict[int, Ear] = {}

    # -- called by the backend ---------------------------------------------------------

    def waiting(self, claim_id: str) -> Waiting | None:
        """Return since when a claim waits that was refused before."""
        return self._waiting.get(claim_id)

    def expect(self, claim: Claim, *, since: float) -> None:
        """Know that a claim was refused, and waits."""
        with self._state:
            if claim.id not in self._waiting:
                self._waiting[claim.id] = Waiting(claim, since, looked_at=since)
                self._wakeups.expect(claim.id)

    def forget(self, claim_id: str) -> bool:
        """Know that a claim no longer waits; whether it did."""
        if claim_id not in self._waiting:
            return False
        with self._state:
            self._wakeups.forget(claim_id)
            return self._waiting.pop(claim_id, None) is not None

    def wait(self, claim: Claim, *, deadline: float) -> None:
        """Return when the claim should ask again."""
        self._listen()
        self._wakeups.wait(claim.id, deadline=deadline)

    def rouse(self, claim_id: str) -> None:
        """Let a waiting claim ask again."""
        self._wakeups.ring(claim_id)

    def stop(self) -> None:
        """Hear no more."""
        with self._state:
            ears, self._ears = list(self._ears.values()), {}
        for one in ears:
            one.stopping.set()
            if (subscription := one.subscription) is not None:
                subscription.kick()
        self._nodes.hang_up()
        for one in ears:
            if one.task is not None:
                one.task.join()

    def after_fork_in_child(self) -> None:
        """Start anew: nothing of the parent's waits here."""
        self.__init__(self._nodes, self._keys, self._clock)  # type: ignore[misc]

    # -- listening ---------------------------------------------------------------------

    def _listen(self) -> None:
        """See to it that every node is listened to."""
        with self._state:
            for number, wire in enumerate(self._nodes.wires):
                known = self._ears.get(number)
                if known is not None and known.is_alive():
                    continue
                ear = self._ears[number] = Ear()
                try:
                    ear.task = runtime.spawn(
                        partial(self._run, number, ear), name="lockfast-redlock-inbox"
                    )
                except RuntimeError as error:
                    # Those who wait ask by themselves now and then.
                    _log.warning("no thread to listen to %s: %s", wire.where, error)

    def _run(self, number: int, ear: Ear) -> None:
        attempt, idle_since = 0, self._clock.now()
        while not ear.stopping.is_set():
            if self._waiting:
                idle_since = self._clock.now()
            elif self._clock.now() - idle_since > IDLE:
                return
            try:
                self._attend(number, ear)
                attempt = 0
            except LockError as error:
                _log.debug("no inbox: %s", error)
            except Exception as error:  # noqa: BLE001 - whatever it is, somebody relies on us
                _log.warning("the inbox failed, and is opened again: %r", error, exc_info=True)
            until = self._clock.now() + delay(attempt, jitter=self._clock.jitter())
            attempt += 1
            runtime.wait_for(ear.stopping, deadline=until, clock=self._clock)

    def _attend(self, number: int, ear: Ear) -> None:
        """Listen until the link breaks, or nobody needs it for long."""
        wire, channel = self._nodes.wires[number], self._keys.inbox(self.name)
        deadline = self._clock.now() + REQUEST
        subscription = wire.subscribe(channel, self._hear, deadline=deadline)
        ear.subscription = subscription
        try:
            self._ring_all()
            idle_since = self._clock.now()
            while not ear.stopping.is_set():
                now = self._clock.now()
                if self._waiting:
                    idle_since = now
                elif now - idle_since > IDLE:
                    return
                if not subscription.listen(until=now + 1.0):
                    return
        finally:
            ear.subscription = None
            subscription.close()

    def _hear(self, message: bytes) -> None:
        # Of whichever node: the first may have heard of no release, or tell nobody.
        self._wakeups.ring(message.decode(errors="replace"))

    def _ring_all(self) -> None:
        with self._state:
            waiting = list(self._waiting)
        for claim_id in waiting:
            self._wakeups.ring(claim_id)


_log = logging.getLogger("lockfast")
