"""Which session carries the advisory locks of a client: opened when needed, replaced when over."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from holdfast._async.backend import AsyncBackend
from holdfast._async.single_flight import LAST_WORD, AsyncSingleFlight
from holdfast.backends.sql._async.advisory_session import AsyncAdvisorySession
from holdfast.backends.sql.ending import SessionEnded
from holdfast.errors import BackendUnavailable
from holdfast.options import DEFAULT_TTL
from holdfast.runtime import aio as runtime
from holdfast.runtime import forking

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable

    from holdfast.backends.sql._async.advisory_connection import AsyncAdvisoryConnection
    from holdfast.backends.sql._async.advisory_requests import Statements
    from holdfast.runtime.clock import Clock

T = TypeVar("T")


class AsyncAdvisorySessions(AsyncBackend):
    """Has at most one session that is used; all who need one meanwhile wait for the same."""

    def __init__(self, statements: Statements, *, location: str, clock: Clock) -> None:
        self.location = location
        self._statements = statements
        self._clock = clock
        self._ttl = DEFAULT_TTL
        self._alarms: list[Callable[[], None]] = []
        self._begin()
        forking.forget_in_child(self)

    def _begin(self) -> None:
        self._state = runtime.StateLock()
        self._session: AsyncAdvisorySession | None = None
        self._lost: list[AsyncAdvisorySession] = []
        """Those that are about to be closed by whoever sends on them."""
        self._opening = AsyncSingleFlight[None](self._clock)
        self._carriers: dict[str, AsyncAdvisorySession] = {}

    async def _connect(self, ttl: float, deadline: float) -> AsyncAdvisoryConnection:
        """Return a connection whose session the server ends when nothing came for a ttl."""
        raise NotImplementedError

    def _freed(self, key: Hashable) -> None:
        """Let whoever is first in our own line ask."""
        raise NotImplementedError

    def _raise_alarm(self) -> None:
        """Let holders be told, and those who wait ask by another session."""
        raise NotImplementedError

    def attach(self, *, ttl: float, hurry: Callable[[], None]) -> None:
        """See the protocol."""
        self._ttl = ttl
        self._alarms.append(hurry)

    async def _by_session(
        self, act: Callable[[AsyncAdvisorySession], Awaitable[T]], deadline: float
    ) -> T:
        """Return what is seen, by another session if the first one ends meanwhile."""
        while True:
            session = await self._opened(None, deadline)
            with suppress(SessionEnded):
                return await act(session)

    async def _opened(self, ttl: float | None, deadline: float) -> AsyncAdvisorySession:
        """Return the session to use, opening one where there is none; None takes any ttl."""
        while (session := self._session) is None or not session.is_usable(self._clock.now()):
            opening = await self._opening.fly(
                partial(self._open, ttl, deadline), deadline=deadline + LAST_WORD
            )
            if opening.is_known:
                opening.result()
            elif opening.is_cut_off:
                raise BackendUnavailable(f"{self.location}: closed before there was a session")
            if self._clock.now() >= deadline:
                raise BackendUnavailable(f"{self.location}: there was no time left to connect")
        if ttl is not None and session.ttl != ttl:
            await session.last_for(ttl, deadline=deadline)
        return session

    async def _open(self, ttl: float | None, deadline: float) -> None:
        self._ttl = ttl or self._ttl
        self._lost = [one for one in (*self._lost, self._session) if one and one.is_running()]
        sent_at = self._clock.now()
        connection = await self._connect(self._ttl, deadline)
        try:
            self._session = AsyncAdvisorySession(
                connection,
                self._statements,
                ttl=self._ttl,
                sent_at=sent_at,
                where=self.location,
                clock=self._clock,
                alarm=self._raise_alarm,
                freed=self._freed,
            )
        except BaseException as error:
            connection.close()
            if isinstance(error, RuntimeError):
                raise BackendUnavailable(
                    f"{self.location}: no thread is to be had for the session: {error}"
                ) from error
            raise

    async def disown(self, client: str, *, deadline: float) -> None:
        """See the protocol: the session is left to the server, which ends it in its time."""
        del client, deadline
        with self._state:
            session, self._session = self._session, None
            self._carriers.clear()
        if session is not None:
            await session.leave()

    async def aclose(self) -> None:
        """See the protocol."""
        await self._opening.end()
        with self._state:
            session, self._session = self._session, None
            lost, self._lost = self._lost, []
            self._carriers.clear()
        await runtime.each_in_turn(*(one.close for one in (*lost, session) if one is not None))

    def after_fork_in_child(self) -> None:
        """Let the child begin with nothing of the parent's."""
        session = self._session
        self._begin()
        if session is not None:
            session.leak()
