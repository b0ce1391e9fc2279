"""How a client ends: everybody is told, what is held is released, the store is let go of."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from lockfast.core.holding import OVER
from lockfast.core.mostly_one import each
from lockfast.errors import LockError
from lockfast.runtime import aio as runtime

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lockfast._async.client import AsyncClient
    from lockfast._async.hold import AsyncHold

AFTERWARDS = 0.1
"""The part of a request's time that is left at close for what is held, if waiting took it all."""


class AsyncClosing:
    """The one close of a client, however often it is begun; each step may be repeated."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self._closer: runtime.Context | None = None
        self.is_begun: bool = False
        self.is_shut: bool = False
        self._is_done = False
        self._defect: Exception | None = None

    async def run(self) -> None:
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
        await runtime.shield(self._close())

    async def _close(self) -> None:
        client = self._client
        with client.state:
            holds = client.holds.all()
            running_out = [one for one in client.watchdog.watched if one.runs_out]
        for hold in (*holds, *running_out):
            hold.lose("closed")
        # A store that does not answer is waited for once, whatever it is asked.
        deadline = client.request_deadline()
        client.followups.hurry(deadline)
        await self._step(partial(self._end_asking, deadline))
        for hold in holds:
            for block in each(hold.blocks):
                await block.finished(deadline=deadline, clock=client.clock)
        # If that took all of it, a little more: what is held may be at a server that answers.
        deadline = max(deadline, client.clock.now() + client.request_timeout * AFTERWARDS)
        await self._release_all(holds, deadline)
        if client.holds or client.asking():
            await self._step(partial(client.backend.disown, client.id, deadline=deadline))
        await self._step(client.watchdog.stop)
        client.clear_up()
        await self._step(client.followups.stop)
        self.is_shut = True
        await self._step(client.backend.aclose)
        await self._step(partial(client.telling.stop, deadline=client.request_deadline()))
        # Not before: what an interrupt leaves of it is done by whoever closes again.
        self._is_done = True
        if self._defect is not None:
            raise self._defect

    async def _step(self, act: Callable[[], Awaitable[None]]) -> None:
        """Do one step; the next ones are done whatever it raises, as `followups` says.

        What the store refuses is no failure of closing: what we held there ends by its ttl. A
        defect is raised when all has been done.
        """
        try:
            await act()
        except LockError as error:
            self._client.logger.debug("closing without the store: %s", error)
        except Exception as error:
            self._client.logger.exception("a step of close() failed; the others are still done")
            self._defect = self._defect or error

    async def _end_asking(self, deadline: float) -> None:
        """Let every acquire that is under way raise LocksClosed, and leave the line first."""
        client = self._client
        while client.clock.now() < deadline:
            asking = client.asking()
            if not asking:
                return
            for one in asking:
                client.backend.rouse(one.claim)
            await runtime.wait_for(
                runtime.Event(), deadline=client.clock.now() + 0.005, clock=client.clock
            )

    async def _release_all(self, holds: list[AsyncHold], deadline: float) -> None:
        for hold in holds:
            if not await self._release(hold, deadline) and self._client.clock.now() >= deadline:
                return

    async def _release(self, hold: AsyncHold, deadline: float) -> bool:
        """Whether the store has answered, if there was a question."""
        # Not under the feet of a block that still runs, nor of another thread that
        # holds a lease without one: those run out by themselves.
        client, owner = self._client, hold.context()
        may_be_used = not runtime.Block.can_interrupt and owner not in (None, runtime.context())
        if each(hold.blocks) or may_be_used or hold.holding is OVER:
            return True
        is_answered = True
        try:
            await client.backend.release(
                hold.grant, deadline=deadline, tombstone=hold.needs_tombstone
            )
        except Exception as error:  # noqa: BLE001 - the other holds are released all the same
            # Told as lost already, and it ends by its ttl, or with the session.
            client.followups.tell_of(error, "release", hold.grant.claim)
            is_answered = False
        client.remove(hold)  # now, so that a close that is interrupted before can be repeated
        return is_answered
