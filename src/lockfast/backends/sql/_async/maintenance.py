"""Creates tables on first use; reaps idle names and connections."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from lockfast.backends._async.single_flight import FLIGHT_GRACE_SECONDS, AsyncSingleFlight
from lockfast.backends.sql import errors
from lockfast.backends.waiting._async.background import AsyncBackground
from lockfast.errors import ConfigurationError, LockError
from lockfast.runtime import aio as runtime

if TYPE_CHECKING:
    from lockfast.backends.sql._async.transport import AsyncSqlTransport
    from lockfast.backends.sql.schema import Tables
    from lockfast.backends.sql.statements import Reaper
    from lockfast.backends.sql.steps import Rows
    from lockfast.backends.waiting._async.background import AsyncBackgroundRun
    from lockfast.runtime.clock import Clock


# Creates the tables if they are missing, and drops them on request.


async def make_tables(
    transport: AsyncSqlTransport[Any], tables: Tables, *, deadline: float
) -> bool:
    """Create the tables, and return whether they were missing.

    Raises ConfigurationError if existing tables are not ours, or if this user may not create them.
    If the tables exist already, the user does not need the right to create tables.
    """
    if await tables_exist(transport, tables, deadline=deadline):
        return False
    try:
        await transport.look(tables.make, deadline=deadline)
    except ConfigurationError as error:
        # Another user may have created the tables since we checked. Then this user may not set the
        # tables' comment, which is no reason to fail.
        if await tables_exist(transport, tables, deadline=deadline):
            return False
        if not transport.refusals.is_forbidden(error.__cause__):
            raise
        raise ConfigurationError(
            f"{transport.where}: {tables.door} and {tables.place} are not there, and this user may "
            "not make them; let one who may run `lockfast init` with this URL, or give this one "
            f"{tables.right_to_make}; besides, it needs SELECT, INSERT, UPDATE and DELETE on the "
            "tables"
        ) from error
    return True


async def drop_tables(
    transport: AsyncSqlTransport[Any], tables: Tables, *, deadline: float
) -> bool:
    """Drop the tables, with all locks in them; return whether they existed.

    Raises ConfigurationError, and drops nothing, if a table of that name is not ours.
    """
    rows = await transport.ask(tables.look(), deadline=deadline)
    _checked(tables, rows, where=transport.where)  # raises if the tables are not ours
    if not rows:
        return False
    await transport.send_all(tables.drop(), deadline=deadline)
    return True


async def tables_exist(
    transport: AsyncSqlTransport[Any], tables: Tables, *, deadline: float
) -> bool:
    """Return whether the tables exist; raise if they are not ours or of a newer format."""
    rows = await transport.ask(tables.look(), deadline=deadline)
    return _checked(tables, rows, where=transport.where)


def _checked(tables: Tables, rows: Rows, *, where: str) -> bool:
    try:
        return tables.are_there(rows)
    except ConfigurationError as error:
        raise ConfigurationError(f"{where}: {error}") from None


# Schema bootstrap on first use: checks once for the tables, and creates them if they are missing.


class AsyncSchemaBootstrap:
    """Remembers whether the tables exist. Concurrent first calls share one check."""

    def __init__(self, transport: AsyncSqlTransport[Any], tables: Tables, clock: Clock) -> None:
        self._transport = transport
        self._tables = tables
        self._looking = AsyncSingleFlight[bool](clock)
        self.is_over = False

    async def ready(self, *, deadline: float) -> None:
        """Return once the tables exist; raise if they are not ours, or cannot be created."""
        if self.is_over:
            return
        look = partial(make_tables, self._transport, self._tables, deadline=deadline)
        looked = await self._looking.run_shared(look, deadline=deadline + FLIGHT_GRACE_SECONDS)
        if not looked.is_known:
            raise errors.no_time(where=self._transport.where)
        looked.result()
        self.is_over = True

    async def stop(self) -> None:
        """End the check that is under way."""
        await self._looking.end()

    def after_fork_in_child(self) -> None:
        """Leave the check that is under way to the parent."""
        self._looking.after_fork_in_child()


# Reaps idle names now and then, in the background, so that no caller waits for that.

REAP_EVERY_VERBS = 64
REAP_BATCH = 64
"""Maximum number of reaping rounds run in a row if several are overdue; further rounds are skipped.
"""


class AsyncNameReaper:
    """Reaps idle names for one client; rounds do not overlap."""

    def __init__(self, transport: AsyncSqlTransport[Any], reaper: Reaper) -> None:
        self._transport = transport
        self._reaper = reaper
        self._state = runtime.StateLock()
        self._until_next = 0
        self._due = 0

    def count(self, releases: int = 1) -> None:
        """Count releases; reaping is due at the first, and then every `REAP_EVERY_VERBS`."""
        with self._state:
            self._until_next -= releases
            if self._until_next <= 0:
                self._until_next = REAP_EVERY_VERBS
                self._due += 1

    async def reap(self, *, deadline: float) -> int:
        """Run the rounds that are due, and return the number of names deleted.

        Errors of the store are not raised.
        """
        with self._state:
            due, self._due = min(self._due, REAP_BATCH), 0
        gone = 0
        try:
            for _ in range(due):
                gone += await self._reap(deadline)
        except LockError:
            # The next call to the store reports what is wrong. The remaining names are reaped
            # another time.
            return gone
        return gone

    def after_fork_in_child(self) -> None:
        """Replace the lock, which a thread of the parent may have held."""
        self._state = runtime.StateLock()

    async def _reap(self, deadline: float) -> int:
        rows = await self._transport.ask(self._reaper.request(), deadline=deadline)
        gone, between = self._reaper.reaped(rows)
        if between is None:
            return gone
        steps = partial(self._reaper.lines, between)
        return gone + await self._transport.transact(steps, deadline=deadline)


# Closes connections that have been idle for a while, because other clients need the server's
# connections too.
#
# The same background run reaps idle names, outside of the client's calls. So no call waits for the
# reaping, and no call fails because the reaping failed.

REAPER_BUSY_SECONDS = 10.0
"""Interval between two checks while no connection is idle, in seconds."""

REAPER_MIN_SECONDS = 1.0
REAP_TIMEOUT_SECONDS = 2.0


class AsyncIdleReaper:
    """Reaps idle connections and names in the background, while there are connections."""

    def __init__(
        self, transport: AsyncSqlTransport[Any], name_reaper: AsyncNameReaper, clock: Clock
    ) -> None:
        self._transport = transport
        self._name_reaper = name_reaper
        self._clock = clock
        self._background = AsyncBackground(self._run, name="lockfast-tidying", clock=clock)

    def begin(self) -> None:
        """Start the background run, unless it is running already."""
        # A fast path, because every request calls `begin` and nearly always finds the run alive.
        run = self._background.current
        if run is None or run.task is None or not run.task.is_alive():
            self._background.is_running()

    async def stop(self) -> None:
        """Stop the background run."""
        await self._background.stop()

    def after_fork_in_child(self) -> None:
        """Forget the parent's background run, which does not exist in the child."""
        self._background.after_fork_in_child()

    async def _run(self, run: AsyncBackgroundRun) -> bool:
        while self._background.is_wanted(run):
            # Pause first, because the run begins before there is a connection.
            now, due_at = self._clock.now(), self._transport.give_back()
            until = (
                now + REAPER_BUSY_SECONDS
                if due_at is None
                else max(due_at, now + REAPER_MIN_SECONDS)
            )
            await runtime.wait_for(run.stopping, deadline=until, clock=self._clock)
            if self._background.is_wanted(run):
                await self._name_reaper.reap(deadline=self._clock.now() + REAP_TIMEOUT_SECONDS)
            self._transport.give_back()
            if not self._transport.connections:
                break
        was_wanted = self._background.is_wanted(run)
        self._background.leave(run)
        if was_wanted and self._transport.connections:
            self.begin()  # a caller connected after the last check and relied on this run
        return False
