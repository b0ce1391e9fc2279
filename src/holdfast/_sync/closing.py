# Generated from src/holdfast/_async/closing.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""How a client ends: everybody is told, what is held is released, the store is let go of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.holding import OVER
from holdfast.core.mostly_one import each
from holdfast.errors import BackendError, OutcomeUnknown
from holdfast.runtime import threads as runtime

if TYPE_CHECKING:
    from holdfast._sync.client import Client
    from holdfast._sync.hold import Hold

AFTERWARDS = 0.1
"""The part of a request's time that is left at close for what is held, if waiting took it all."""


class Closing:
    """The one close of a client, however often it is begun; each step may be repeated."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._closer: runtime.Context | None = None
        self.is_begun: bool = False
        self.is_shut: bool = False
        self._is_done = False

    def run(self) -> None:
        """Tell every lease that it is lost, then let go of everything.

        A cancellation has to wait for it; an interrupt ends it, and it may be called again.
        """
        me = runtime.context()
        with self._client.state:
            # Whoever closes again was interrupted, or so was one who is not there any more.
            closer = self._closer
            if self._is_done or not (closer in (None, me) or runtime.has_ended(closer)):
                return
            self._closer = me
            self.is_begun = True
        runtime.shield(self._close())

    def _close(self) -> None:
        client = self._client
        with client.state:
            holds = client.holds.all()
        for hold in holds:
            hold.lose("closed")
        # A store that does not answer is waited for once, whatever it is asked.
        deadline = client.request_deadline()
        client.followups.hurry(deadline)
        self._end_asking(deadline)
        for hold in holds:
            for block in each(hold.blocks):
                block.finished(deadline=deadline, clock=client.clock)
        # If that took all of it, a little more: what is held may be at a server that answers.
        deadline = max(deadline, client.clock.now() + client.request_timeout * AFTERWARDS)
        self._release_all(holds, deadline)
        if client.holds or client.asking():
            try:
                client.backend.disown(client.id, deadline=deadline)
            except (BackendError, OutcomeUnknown) as error:
                # Closing goes on without the store; what we held there ends by its ttl.
                client.logger.debug("closing without the store: %s", error)
        client.watchdog.stop()
        client.clear_up()
        client.followups.stop()
        self.is_shut = True
        client.backend.close()
        client.telling.stop(deadline=client.request_deadline())
        # Not before: what an interrupt leaves of it is done by whoever closes again.
        self._is_done = True

    def _end_asking(self, deadline: float) -> None:
        """Let every acquire that is under way raise LocksClosed, and leave the line first."""
        client = self._client
        while client.clock.now() < deadline:
            asking = client.asking()
            if not asking:
                return
            for one in asking:
                client.backend.rouse(one.claim)
            runtime.wait_for(
                runtime.Event(), deadline=client.clock.now() + 0.005, clock=client.clock
            )

    def _release_all(self, holds: list[Hold], deadline: float) -> None:
        for hold in holds:
            if not self._release(hold, deadline) and self._client.clock.now() >= deadline:
                return

    def _release(self, hold: Hold, deadline: float) -> bool:
        """Whether the store has answered, if there was a question."""
        # Not under the feet of a block that still runs, nor of another thread that
        # holds a lease without one: those run out by themselves.
        client, owner = self._client, hold.context()
        may_be_used = not runtime.Block.can_interrupt and owner not in (None, runtime.context())
        if each(hold.blocks) or may_be_used or hold.holding is OVER:
            return True
        is_answered = True
        try:
            client.backend.release(hold.grant, deadline=deadline, tombstone=hold.needs_tombstone)
        except (BackendError, OutcomeUnknown) as error:
            # Told as lost already, and it ends by its ttl.
            client.telling.failed("release", error, hold.grant.claim)
            is_answered = False
        client.remove(hold)  # now, so that a close that is interrupted before can be repeated
        return is_answered
