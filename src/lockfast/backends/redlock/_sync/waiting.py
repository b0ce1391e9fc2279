# Generated from src/lockfast/backends/redlock/_async/waiting.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""How waiting claims learn from the nodes that a name is free.

A node wakes one waiter at a time; see `scripts/waking.lua`. Any node may send the wakeup, so while
claims wait, one task or thread per node listens. A message is a hint, which is lost if the client
is not subscribed, so after every subscription all waiting claims ask again.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from lockfast.backends.waiting._sync.wakeups import Wakeups
from lockfast.core.backoff import delay
from lockfast.errors import LockError
from lockfast.runtime import threads as runtime

if TYPE_CHECKING:
    from lockfast.backends.redis.connection_threads import RedisSubscription
    from lockfast.backends.redis.requests import RedisKeys
    from lockfast.backends.redlock.nodes_threads import Nodes
    from lockfast.model import Claim
    from lockfast.runtime.clock import Clock

INBOX_IDLE_SECONDS = 30.0
"""Idle time after which listening ends if no claim waits, in seconds."""

SUBSCRIBE_TIMEOUT_SECONDS = 1.0
"""Timeout for a subscription, in seconds."""


@dataclass(slots=True)
class RefusedClaim:
    """A refused claim, with the times when its wait began and when it last asked all nodes."""

    claim: Claim
    since: float
    looked_at: float
    opens_at: float = 0.0
    """When a majority of the nodes will be open again after a min_hold."""


class NodeListener:
    """The background task that listens to one node; this object exists before the task."""

    def __init__(self) -> None:
        self.stopping = runtime.WakeEvent()
        self.subscription: RedisSubscription | None = None
        self.task: runtime.Task | None = None

    def is_alive(self) -> bool:
        """Return whether the task is running."""
        return self.task is not None and self.task.is_alive()


class RedlockInbox:
    """Wakes the claims that should ask again."""

    def __init__(self, nodes: Nodes, keys: RedisKeys, clock: Clock) -> None:
        self._nodes = nodes
        self._keys = keys
        self._clock = clock
        self.name = os.urandom(8).hex()
        self._state = runtime.StateLock()
        self._wakeups = Wakeups(clock)
        self._waiting: dict[str, RefusedClaim] = {}
        self._listeners: dict[int, NodeListener] = {}

    # -- called by the backend ---------------------------------------------------------

    def waiting(self, claim_id: str) -> RefusedClaim | None:
        """Return the record of a claim that was refused before and still waits."""
        return self._waiting.get(claim_id)

    def expect(self, claim: Claim, *, since: float) -> None:
        """Record that a claim was refused and waits now."""
        with self._state:
            if claim.id not in self._waiting:
                self._waiting[claim.id] = RefusedClaim(claim, since, looked_at=since)
                self._wakeups.expect(claim.id)

    def forget(self, claim_id: str) -> bool:
        """Record that a claim no longer waits; return whether it was waiting."""
        if claim_id not in self._waiting:
            return False
        with self._state:
            self._wakeups.forget(claim_id)
            return self._waiting.pop(claim_id, None) is not None

    def wait(self, claim: Claim, *, deadline: float) -> None:
        """Return when the claim should ask again."""
        self._listen()
        self._wakeups.wait(claim.id, deadline=deadline)

    def wake(self, claim_id: str) -> None:
        """Wake a waiting claim."""
        self._wakeups.wake(claim_id)

    def stop(self) -> None:
        """Stop listening."""
        with self._state:
            ears, self._listeners = list(self._listeners.values()), {}
        for one in ears:
            one.stopping.set()
            if (subscription := one.subscription) is not None:
                subscription.kick()
        self._nodes.hang_up()
        for one in ears:
            if one.task is not None:
                one.task.join()

    def after_fork_in_child(self) -> None:
        """Start afresh: none of the parent's claims wait here."""
        self.__init__(self._nodes, self._keys, self._clock)  # type: ignore[misc]

    # -- listening ---------------------------------------------------------------------

    def _listen(self) -> None:
        """Start a listener for every node that has none."""
        with self._state:
            for number, transport in enumerate(self._nodes.transports):
                known = self._listeners.get(number)
                if known is not None and known.is_alive():
                    continue
                listener = self._listeners[number] = NodeListener()
                try:
                    listener.task = runtime.spawn(
                        partial(self._run, number, listener), name="lockfast-redlock-inbox"
                    )
                except RuntimeError as error:
                    # Go on without a listener, because waiting claims also poll now and then.
                    _log.warning("no thread to listen to %s: %s", transport.where, error)

    def _run(self, number: int, listener: NodeListener) -> None:
        attempt, idle_since = 0, self._clock.now()
        while not listener.stopping.is_set():
            if self._waiting:
                idle_since = self._clock.now()
            elif self._clock.now() - idle_since > INBOX_IDLE_SECONDS:
                return
            try:
                self._attend(number, listener)
                attempt = 0
            except LockError as error:
                _log.debug("no inbox: %s", error)
            except Exception as error:  # noqa: BLE001 - the waiters rely on this loop
                _log.warning("the inbox failed, and is opened again: %r", error, exc_info=True)
            until = self._clock.now() + delay(attempt, jitter=self._clock.jitter())
            attempt += 1
            runtime.wait_for(listener.stopping, deadline=until, clock=self._clock)

    def _attend(self, number: int, listener: NodeListener) -> None:
        """Listen until the connection breaks, or no claim has waited for long."""
        transport, channel = self._nodes.transports[number], self._keys.inbox(self.name)
        deadline = self._clock.now() + SUBSCRIBE_TIMEOUT_SECONDS
        subscription = transport.subscribe(channel, self._on_message, deadline=deadline)
        listener.subscription = subscription
        try:
            self._wake_all()
            idle_since = self._clock.now()
            while not listener.stopping.is_set():
                now = self._clock.now()
                if self._waiting:
                    idle_since = now
                elif now - idle_since > INBOX_IDLE_SECONDS:
                    return
                if not subscription.listen(until=now + 1.0):
                    return
        finally:
            listener.subscription = None
            subscription.close()

    def _on_message(self, message: bytes) -> None:
        # Accept a message from any node, because the first node may not have received the release,
        # or may have notified nobody.
        self._wakeups.wake(message.decode(errors="replace"))

    def _wake_all(self) -> None:
        with self._state:
            waiting = list(self._waiting)
        for claim_id in waiting:
            self._wakeups.wake(claim_id)


_log = logging.getLogger("lockfast")
