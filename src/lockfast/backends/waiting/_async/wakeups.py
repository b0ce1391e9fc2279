"""The inbox of a client, which records the waiting claims that should ask again.

A client has one subscription, not one per lock. A wakeup is a hint, and may arrive before its claim
waits for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from lockfast.runtime import aio as runtime
from lockfast.runtime import fork

if TYPE_CHECKING:
    from lockfast.runtime.clock import Clock


class WakeupSource(Protocol):
    """A source of wakeups that waiters can listen to."""

    async def wait_for_event(self, event: runtime.WakeEvent, *, deadline: float) -> None:
        """Return when the event is set or the deadline has passed."""
        ...


class AsyncWakeups:
    """The wakeups that have arrived, by claim; any thread may deliver a wakeup."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._events: dict[str, runtime.WakeEvent] = {}
        fork.reset_in_child(self)

    def expect(self, claim_id: str) -> None:
        """Keep wakeups for this claim from now on."""
        if claim_id not in self._events:
            self._events[claim_id] = runtime.WakeEvent()

    def wake(self, claim_id: str) -> bool:
        """Wake the claim, so that it asks again; false if nobody expects its wakeups."""
        event = self._events.get(claim_id)
        if event is not None:
            event.set()
        return event is not None

    async def wait(
        self, claim_id: str, *, deadline: float, subscription: WakeupSource | None = None
    ) -> bool:
        """Wait for a wakeup unless one came since the last wait; false if no wakeup came in time.

        With a subscription, the waiter may read the source of the wakeups itself.
        """
        event = self._events.get(claim_id)
        if event is None:
            return True
        if subscription is None:
            await runtime.wait_for(event, deadline=deadline, clock=self._clock)
        else:
            await subscription.wait_for_event(event, deadline=deadline)
        if not event.is_set():
            return False
        event.clear()
        return True

    def forget(self, claim_id: str) -> None:
        """Keep no more wakeups for this claim."""
        self._events.pop(claim_id, None)

    def after_fork_in_child(self) -> None:
        """Wake all waiters, which have to ask again because their wakeups go to the parent."""
        inherited, self._events = self._events, {}
        for event in inherited.values():
            event.set()
