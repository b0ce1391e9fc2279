"""The life of a session that carries advisory locks: requests in their order, heartbeats, its end.

All locks of a client belong to one connection, and end with it. One task or thread of the
session's own sends on it: a caller that is cancelled or interrupted in the middle of a request
must not cost the locks of all others, and its answer is heard all the same.

The server was told to end the session when nothing came for a ttl. So every answer proves it for
a ttl, counted from before the request was sent: until then nobody but an operator, a restart or
a failover frees what it carries. Heartbeats go on while it is open; after IDLE seconds with
nothing to carry it is closed.
"""

from __future__ import annotations

import copy
import logging
from collections import deque
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.backends.sql._async.advisory_requests import Request
from holdfast.backends.sql.ending import AnotherSession, SessionEnded
from holdfast.core.trust import trusted_until
from holdfast.errors import BackendUnavailable, ConfigurationError, LockError, OutcomeUnknown
from holdfast.runtime import aio as runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from holdfast.backends.sql._async.advisory_connection import AsyncAdvisoryConnection
    from holdfast.backends.sql._async.advisory_requests import Statements
    from holdfast.backends.sql.standing import Standing
    from holdfast.backends.sql.steps import Ask, Rows
    from holdfast.runtime.clock import Clock

_log = logging.getLogger("holdfast")

BEATS = 3
"""So many heartbeats go into a ttl: two may go unanswered before trust ends."""

LOOK = 0.5
"""So often one looks whether the server has hung up. No request is sent for it."""

IDLE = 30.0
"""With nothing to carry, the session is closed after so long."""

GOODBYE = 0.5
"""A request that is under way when the session is closed may take so long."""


class AsyncAdvisoryLife:
    """From its opening to its end; there is no coming back.

    `alarm` is called when it was lost, `freed` with the key that was given back.
    """

    def __init__(
        self,
        connection: AsyncAdvisoryConnection,
        statements: Statements,
        *,
        ttl: float,
        sent_at: float,
        where: str,
        clock: Clock,
        alarm: Callable[[], None],
        freed: Callable[[Any], None],
    ) -> None:
        self.ttl = ttl
        self.counted_from = sent_at
        """When the last request was sent that was answered."""
        self.standings: dict[Hashable, Standing[Request]] = {}
        self._connection = connection
        self._statements = statements
        self._where = where
        self._clock = clock
        self._alarm = alarm
        self._freed = freed
        self._state = runtime.StateLock()
        self._requests: deque[Request] = deque()
        self._kick = runtime.Event()
        self._left = runtime.Event()
        self._task: runtime.Task | None = None
        self._is_ending = False
        self._is_over = False
        self._is_told = False
        self._run_beside()

    @property
    def number(self) -> int:
        """The server's number for it."""
        return self._connection.number

    # -- asking ------------------------------------------------------------------------

    async def prove(self, *, deadline: float) -> None:
        """Return when the server has answered; then `counted_from` is new."""
        await self._ask(Request(self._statements.beat(), deadline=deadline, heard=_ignore))

    async def look(self, ask: Ask, *, deadline: float) -> Rows:
        """Return the rows of something that changes nothing."""
        return await self._ask(Request(ask, deadline=deadline))

    async def last_for(self, ttl: float, *, deadline: float) -> None:
        """Have another ttl from now on; refused while something is carried that trusts this one.

        Who asks for a lock meanwhile does so after it, and is told the new one.
        """
        ask = self._statements.last_for(ttl)
        await self._ask(Request(ask, deadline=deadline, lasts=ttl))

    async def _ask(self, request: Request) -> Rows:
        with self._state:
            self._refuse_if_over()
            if request.lasts is not None and self.standings:
                raise ConfigurationError(
                    f"ttl={request.lasts!r}: this client's session lasts for {self.ttl!r} s and "
                    "carries all its locks; use another client for another ttl"
                )
            self._requests.append(request)
            self._kick.set()
        if not await self._is_begun_in_time(request, request.deadline):
            raise BackendUnavailable(f"{self._where}: there was no time left to ask")
        return await self._answered(request, request.deadline)

    async def _is_begun_in_time(self, request: Request, deadline: float) -> bool:
        """Wait for the answer; false if by then it was not even sent, and never will be."""
        self._keep_running()
        await runtime.wait_for(request.ended, deadline=deadline, clock=self._clock)
        with self._state:
            if request.ended.is_set() or request.is_begun:
                return True
            with suppress(ValueError):
                self._requests.remove(request)
        return False

    async def _answered(self, request: Request, deadline: float) -> Rows:
        self._keep_running()
        await runtime.wait_for(request.ended, deadline=deadline, clock=self._clock)
        if not request.ended.is_set():
            raise OutcomeUnknown(f"{self._where} did not answer in time")
        if request.error is not None:
            # One object that is raised in many places would carry the tracebacks of all.
            raise copy.copy(request.error) from request.error
        return request.rows

    def _refuse_if_over(self) -> None:
        if self._is_over or self._is_ending:
            raise self._ended()

    def _ended(self) -> SessionEnded:
        return SessionEnded(f"{self._where}: the session has ended, and all that it carried")

    # -- life --------------------------------------------------------------------------

    def is_usable(self, now: float) -> bool:
        """Whether it may carry a claim; once it may not, it never will again."""
        if self._is_over or self._is_ending:
            return False
        is_late = now >= trusted_until(sent_at=self.counted_from, ttl=self.ttl)
        if is_late or not self._connection.is_sound:
            # For good: its leases were told so, and a late answer must not bring it back.
            self._give_up()
            return False
        return True

    def _give_up(self) -> None:
        """Use it no more; whoever sends on it does the rest, since nothing interrupts that one."""
        self._is_over = True
        self._connection.cut()
        self._kick.set()
        if not self.is_running():
            self._lose()
            self._connection.close()

    def is_running(self) -> bool:
        """Whether somebody still sends on the connection, or is about to close it."""
        return self._task is not None and self._task.is_alive()

    def _run_beside(self) -> None:
        self._left = runtime.Event()
        self._task = runtime.spawn(partial(self._run, self._left), name="holdfast-session")

    def _keep_running(self) -> None:
        """Let the background go on that somebody ended with all other tasks."""
        if self.is_running():
            return
        # Where no thread is to be had, the next one who comes tries again.
        with self._state, suppress(RuntimeError):
            if not (self.is_running() or self._is_ending or self._is_over):
                self._run_beside()

    async def _run(self, left: runtime.Event) -> None:
        try:
            await self._serve()
        finally:
            if self._is_over:
                self._lose()
                self._connection.close()
            left.set()
            if not (self._is_ending or self._is_over):
                # Cancelled from outside: whoever relies on it looks, and lets it go on.
                self._alarm()

    async def _serve(self) -> None:
        idle_since = self._clock.now()
        while not self._is_ending:
            self._kick.clear()
            now = self._clock.now()
            if not self.is_usable(now):
                return
            if self.standings or self._requests:
                idle_since = now
            elif now - idle_since > IDLE and self._is_over_if_empty():
                return
            due = self.counted_from + self.ttl / BEATS
            if now >= due and not self._requests:
                beat = Request(self._statements.beat(), deadline=now, heard=_ignore)
                with self._state:
                    self._requests.append(beat)
            request = self._next()
            if request is not None:
                await self._do(request)
            else:
                wake_at = min(due, now + LOOK)
                await runtime.wait_for(self._kick, deadline=wake_at, clock=self._clock)

    def _next(self) -> Request | None:
        with self._state:
            if not self._requests:
                return None
            request = self._requests.popleft()
            request.is_begun = True
        return request

    async def _do(self, request: Request) -> None:
        sent_at = self._clock.now()
        # As long as the leases can be trusted: who asked gives up sooner, and the answer may
        # still come, where closing would end them all.
        until = max(request.deadline, trusted_until(sent_at=self.counted_from, ttl=self.ttl))
        try:
            request.rows = await self._connection.ask(request.ask, deadline=until)
            self._hear(request, sent_at)
        except (SessionEnded, AnotherSession) as error:
            request.error = error
            self._lose()
        except LockError as error:
            request.error = error
            if request.failed is not None:
                with self._state:
                    request.failed()
        except BaseException:
            # Cancelled, with all other tasks perhaps: the link has been closed for it.
            request.error = self._ended()
            self._lose()
            raise
        finally:
            request.ended.set()

    def _hear(self, request: Request, sent_at: float) -> None:
        with self._state:
            if request.lasts is not None:
                # In the order in which the server was told, not in that of who asked.
                self.ttl = request.lasts
            if request.heard is None:
                return
            [(answer, number)] = request.rows
            if number != self.number:
                raise AnotherSession(
                    f"{self._where}: another session of the server answers than the one that "
                    "carries the locks, so a pooler stands between that gives it away; give the "
                    "server's own address, or leave mode=advisory out"
                )
            self.counted_from = sent_at
            request.heard(answer)

    def _is_over_if_empty(self) -> bool:
        # In one step with who asks: a claim that comes just now finds it alive, or not at all.
        with self._state:
            self._is_over = not (self.standings or self._requests)
        return self._is_over

    def _lose(self) -> None:
        """Know that nothing is carried any more, and let everybody know."""
        with self._state:
            self._is_over = True
            was_told, self._is_told = self._is_told, True
            left = list(self._requests)
            self._requests.clear()
            self.standings.clear()
        self._turn_away(left)
        if not was_told:
            _log.debug("%s: the session that carries advisory locks has ended", self._where)
            self._alarm()

    def _turn_away(self, requests: Sequence[Request]) -> None:
        for request in requests:
            request.error = self._ended()
            request.ended.set()

    # -- the end -----------------------------------------------------------------------

    async def close(self) -> None:
        """End it; the server frees all that it carried."""
        await self._stop()
        self._connection.close()
        self._is_over = True

    async def leave(self) -> None:
        """Send nothing more, and let the server end it in its time: what it carries is in use."""
        await self._stop()
        is_carrying = bool(self.standings)
        self._is_over = True
        if is_carrying:
            # Not by a task of the loop's, which may be about to end; nobody waits for it.
            runtime.spawn_lookout(self._outlast, name="holdfast-session-left")
        else:
            self._connection.close()

    async def _outlast(self) -> None:
        # The connection stays: were it closed, the server would free the lock under the feet
        # of a block that still runs.
        until = self.counted_from + self.ttl
        await runtime.wait_for(runtime.Event(), deadline=until, clock=self._clock)
        self._connection.close()

    async def _stop(self) -> None:
        self._is_ending = True
        self._kick.set()
        task = self._task
        if task is not None and task.is_alive():
            until = self._clock.now() + GOODBYE
            if not await runtime.wait_for(self._left, deadline=until, clock=self._clock):
                self._connection.cut()
            await task.join()
        with self._state:
            left = list(self._requests)
            self._requests.clear()
        self._turn_away(left)

    def leak(self) -> None:
        """Leave it to the parent process."""
        self._is_ending = True
        self._connection.disinherit()


def _ignore(_answer: object) -> None:
    """Nothing depends on what a heartbeat answers, but that it was answered."""
