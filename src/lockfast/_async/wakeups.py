"""A client's inbox: which of its waiting claims should ask again.

One subscription per client, not per lock; a ring is a hint, and may come before anybody
waits for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from lockfast.runtime import aio as runtime
from lockfast.runtime import forking

if TYPE_CHECKING:
    from lockfast.runtime.clock import Clock


class Subscription(Protocol):
    """Something that rings, and can be listened to by those who wait."""

    async def attend(self, event: runtime.Event, *, deadline: float) -> None:
        """Return when the event is set or the deadline has passed."""
        ...


class AsyncWakeups:
    """The rings that came, by claim; may be rung from any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rung: dict[str, runtime.Event] = {}
        forking.forget_in_child(self)

    def expect(self, claim_id: str) -> None:
        """Keep rings for this claim from now on."""
        if claim_id not in self._rung:
            self._rung[claim_id] = runtime.Event()

    def ring(self, claim_id: str) -> bool:
        """Let the claim ask again; false if nobody expects a ring for it."""
        event = self._rung.get(claim_id)
        if event is not None:
            event.set()
        return event is not None

    async def wait(
        self, claim_id: str, *, deadline: float, subscription: Subscription | None = None
    ) -> bool:
        """Return at the next ring, or at one that came since the last wait; false if none did.

        Given a subscription to what brings the rings, whoever waits may listen by itself.
        """
        event = self._rung.get(claim_id)
        if event is None:
            return True
        if subscription is None:
            await runtime.wait_for(event, deadline=deadline, clock=self._clock)
        else:
            await subscription.attend(event, deadline=deadline)
        if not event.is_set():
            return False
        event.clear()
        return True

    def forget(self, claim_id: str) -> None:
        """Keep no more rings for this claim."""
        self._rung.pop(claim_id, None)

    def after_fork_in_child(self) -> None:
        """Let whoever waits ask again: what would have rung it is the parent's."""
        inherited, self._rung = self._rung, {}
        for event in inherited.values():
            event.set()
