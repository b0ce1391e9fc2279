"""The backend port for claimed rows, whose leases a client's watchdog renews as in any store.

Rows are claimed in batches, and the database chooses them. So, unlike with other stores, a request
contains no name, and the grants follow from the rows that the database returned.
"""

from __future__ import annotations

import hashlib
import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self, TypeVar

from lockfast.backends._async.backend import AsyncBackend
from lockfast.core.naming import NAME_MAX_BYTES
from lockfast.dbapi._async.connection import AsyncCallersConnection
from lockfast.dbapi.statements import POSTGRESQL, SQLITE, Statement
from lockfast.errors import BackendError, LockError, OutcomeUnknown
from lockfast.model import Capabilities, Grant, Renewal, TokenQuality
from lockfast.runtime import aio as runtime
from lockfast.runtime import fork
from lockfast.sql_rows.claiming import NOW_COLUMN, RowClaim
from lockfast.sql_rows.transactions import is_conflict, refuse_autocommit

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from types import TracebackType

    from lockfast.model import Claim
    from lockfast.runtime.clock import Clock
    from lockfast.sql_rows.claiming import Claimable, Key

T = TypeVar("T")

# Connections that the caller's function creates for the claims of one worker.
#
# One connection is kept between requests, for the thread that created it, because a sqlite3
# connection may not be used in another thread. A request gets a separate connection if it arrives
# while the kept connection is in use, or from another thread, such as the watchdog's.

LEGACY = -1
"""The transaction mode for sqlite3; from Python 3.12 on, its name is LEGACY_TRANSACTION_CONTROL."""
READ_COMMITTED = Statement("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")


class AsyncOwnConnections:
    """Connections that we use, commit and close ourselves."""

    def __init__(self, connect: Callable[[], Any]) -> None:
        if not callable(connect):
            raise TypeError(
                f"connect is a function that returns a new connection, not {connect!r}; "
                "`engine.connect` of SQLAlchemy's is one"
            )
        self._connect = connect
        self._state = runtime.StateLock()
        self._home: tuple[int, int] | None = None
        self._kept: Any = None
        self._is_closed = False

    async def use(self, work: Callable[[AsyncCallersConnection], Awaitable[T]]) -> T:
        """Run `work` on a connection, commit, and return its result."""
        connection = await self._take_connection()
        try:
            done = await work(AsyncCallersConnection(connection))
            await connection.commit()
        except BaseException:
            # The connection may be broken, or in the middle of a request, so do not keep it.
            await _close(connection)
            raise
        await self._give_back(connection)
        return done

    async def _take_connection(self) -> Any:  # noqa: ANN401 - a driver's
        with self._state:
            if self._is_at_home():
                kept, self._kept = self._kept, None
                if kept is not None:
                    return kept
        connection = await self._connect()
        try:
            await _prepare(connection)
        except BaseException:
            await _close(connection)
            raise
        return connection

    async def _give_back(self, connection: Any) -> None:  # noqa: ANN401 - a driver's
        with self._state:
            if self._kept is None and self._is_at_home() and not self._is_closed:
                self._kept = connection
                return
        await _close(connection)

    def _is_at_home(self) -> bool:
        here = os.getpid(), threading.get_ident()
        self._home = self._home or here  # the first request sets the home process and thread
        return self._home == here

    async def aclose(self) -> None:
        """Close the kept connection, if this process and thread have made it."""
        with self._state:
            self._is_closed = True
            kept, self._kept = self._kept, None
        if kept is None:
            return
        if self._is_at_home():
            await _close(kept)
        else:
            fork.abandon(kept)  # closing it in a forked child would end the parent's session


async def _close(connection: Any) -> None:  # noqa: ANN401 - a driver's
    # A broken connection cannot be closed properly; the cause is raised elsewhere.
    with suppress(Exception):
        # A connection of asyncmy has both methods.
        close = getattr(connection, "ensure_closed", None) or connection.close
        await close()


async def _prepare(connection: Any) -> None:  # noqa: ANN401 - a driver's
    """Configure the connection so that each request is one transaction."""
    kind = AsyncCallersConnection(connection).kind
    if kind.library == "sqlite3":
        # The first write begins a transaction, and `commit` ends it.
        if hasattr(connection, "autocommit"):
            connection.rollback()
            connection.autocommit = LEGACY
        connection.isolation_level = ""
    elif kind.library == "psycopg":
        await connection.set_autocommit(False)
    elif kind.library in {"pymysql", "asyncmy"}:
        await connection.autocommit(False)
        # REPEATABLE READ, the default, would keep every row that was examined locked.
        callers = AsyncCallersConnection(connection)
        await callers.run(READ_COMMITTED)
        await connection.commit()
    elif kind.library == "sqlalchemy":
        refuse_autocommit(connection)


# How long a request waits for another transaction, which may be the worker's own.
#
# If it is the worker's own transaction, the code that could end it may be waiting for us. So no
# request waits longer than its result is useful.

_SQLITE_BUSY_TIMEOUT = "PRAGMA busy_timeout"


class AsyncStatementTimeout:
    """A block in which a connection waits for a lock for at most `seconds`.

    On exit, the block restores the old limit, because a pool may lend the connection to others.
    MySQL has no such setting for one transaction, and gives up after innodb_lock_wait_timeout.
    """

    def __init__(self, callers: AsyncCallersConnection, seconds: float) -> None:
        self._callers = callers
        self._milliseconds = max(1, int(seconds * 1000))  # in PostgreSQL, 0 would mean no limit
        self._before = 0

    async def __aenter__(self) -> Self:
        if self._callers.dialect is SQLITE:
            [[self._before]] = (await self._callers.run(Statement(_SQLITE_BUSY_TIMEOUT))).rows
            await self._set_sqlites(min(self._before, self._milliseconds))
        elif self._callers.dialect is POSTGRESQL:
            # The setting lasts until the end of the transaction. SET LOCAL would do the same, but
            # psycopg reports no result for it.
            setting = f"SELECT set_config('lock_timeout', '{self._milliseconds}', true)"
            await self._callers.run(Statement(setting))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._callers.dialect is SQLITE:
            await self._set_sqlites(self._before)

    async def _set_sqlites(self, milliseconds: int) -> None:
        await self._callers.run(Statement(f"{_SQLITE_BUSY_TIMEOUT} = {milliseconds}"))


class AsyncRowLeases(AsyncBackend):
    """Claims, renews and gives back rows of one table.

    Nothing acquires or inspects a lock through this backend, so it inherits those methods from the
    port.
    """

    capabilities = Capabilities(
        fair=False,
        shared=False,
        push_wakeup=False,
        explicit_owner=False,
        lock_delay=False,
        token_quality=TokenQuality.DURABLE,
        ends_by="ttl",
    )
    min_ttl = 0.1

    def __init__(
        self, claimable: Claimable, connections: AsyncOwnConnections, clock: Clock
    ) -> None:
        self.location = f"rows of {claimable.keyed}"
        self._claimable = claimable
        self._connections = connections
        self._clock = clock

    # -- claiming ----------------------------------------------------------------------

    async def claim(self, limit: int, ttl: float) -> tuple[int, list[dict[str, Any]]] | None:
        """Return a token and the rows claimed with it; None if other transactions were in the way.

        An empty list means that no row can be claimed.
        """

        async def work(
            callers: AsyncCallersConnection,
        ) -> tuple[int, list[dict[str, Any]]] | None:
            claimable, dialect = self._claimable, callers.dialect
            any_claimable = claimable.look(dialect, limit=1, locks=False)
            if dialect is SQLITE:
                # A writer locks the whole file, so check first, without writing, whether there is a
                # row to claim.
                if not (await callers.run(any_claimable)).rows:
                    return 0, []
                await callers.run(claimable.lock_all(dialect))
            rows = (await callers.run(claimable.look(dialect, limit=limit, locks=True))).named()
            if not rows:
                is_empty = dialect is SQLITE or not (await callers.run(any_claimable)).rows
                return (0, []) if is_empty else None
            claimable.refuse_shared_keys(rows, changed=0)
            token = claimable.next_token(rows)
            claimed = await callers.run(claimable.claim(dialect, rows, token=token, ttl=ttl))
            claimable.refuse_shared_keys(rows, changed=claimed.changed)
            if claimed.changed != len(rows):
                raise _Overtaken
            written = await callers.run(claimable.read_back(dialect, rows))
            since = float(rows[0][NOW_COLUMN])
            claimable.refuse_inexact(written.rows, token=token, since=since, ttl=ttl)
            for one in rows:
                one.pop(NOW_COLUMN)
            return token, rows

        try:
            return await self._connections.use(work)
        except (LockError, TypeError):
            raise
        except Exception as error:  # any driver may raise this error
            if isinstance(error, _Overtaken) or is_conflict(error):
                return None
            raise BackendError(f"no row of {self.location} could be claimed: {error}") from error

    def name_of(self, key: Key) -> str:
        """Return the name of a row's lease."""
        name = f"{self._claimable.keyed}:{':'.join(map(str, key))}"
        size = len(name.encode(errors="replace"))
        if size <= NAME_MAX_BYTES and name.isprintable():
            return name
        digest = hashlib.sha256(repr(key).encode()).hexdigest()
        return f"{str(self._claimable.keyed)[:100]}:{digest}"

    # -- called by the watchdog and by leases -------------------------------------------

    async def renew(self, grants: Sequence[Grant], *, deadline: float) -> Sequence[Renewal]:
        """Renew the rows that are not locked; for a locked row of ours, return UNKNOWN."""
        claims = [_key_and_token(one) for one in grants]

        async def work(callers: AsyncCallersConnection) -> list[Renewal]:
            return await self._renew(callers, claims, ttl=grants[0].ttl)

        return await self._run_request(work, "renewal", deadline=deadline)

    async def _renew(
        self, callers: AsyncCallersConnection, claims: Sequence[tuple[Key, int]], *, ttl: float
    ) -> list[Renewal]:
        claimable, dialect = self._claimable, callers.dialect
        if dialect is SQLITE:
            await callers.run(claimable.lock_all(dialect))
        found = await callers.run(claimable.still_claimed(dialect, claims, locks=True))
        locked = set(found.rows)
        if ours := [one for one in claims if one[0] in locked]:
            await callers.run(claimable.renew(dialect, ours, ttl=ttl))
        if len(ours) == len(claims):
            return [Renewal.RENEWED] * len(claims)
        found = await callers.run(claimable.still_claimed(dialect, claims, locks=False))
        left = set(found.rows)
        return [
            Renewal.RENEWED if key in locked else Renewal.UNKNOWN if key in left else Renewal.LOST
            for key, _ in claims
        ]

    async def release(self, grant: Grant, *, deadline: float, tombstone: bool) -> bool:
        """Let others claim the row at once."""
        del tombstone  # a claim is never requested again, so no late copy can arrive
        key, token = _key_and_token(grant)

        async def work(callers: AsyncCallersConnection) -> bool:
            statement = self._claimable.give_back(callers.dialect, key, token)
            return (await callers.run(statement)).changed == 1

        return await self._run_request(work, "release", deadline=deadline)

    async def withdraw(self, claim: Claim, *, deadline: float, tombstone: bool) -> None:
        """Give the row back if we still have it."""
        if isinstance(claim, RowClaim):
            await self.release(
                Grant(claim, claim.token, claim.ttl), deadline=deadline, tombstone=tombstone
            )

    async def _run_request(
        self,
        work: Callable[[AsyncCallersConnection], Awaitable[T]],
        what: str,
        *,
        deadline: float,
    ) -> T:
        async def with_lock_timeout(callers: AsyncCallersConnection) -> T:
            async with AsyncStatementTimeout(callers, deadline - self._clock.now()):
                return await work(callers)

        try:
            return await self._connections.use(with_lock_timeout)
        except LockError:
            raise
        except Exception as error:  # any driver may raise this error
            raise OutcomeUnknown(f"the {what} of {self.location} failed: {error}") from error

    async def aclose(self) -> None:
        """Close the kept connection."""
        await self._connections.aclose()


def _key_and_token(grant: Grant) -> tuple[Key, int]:
    claim = grant.claim
    assert isinstance(claim, RowClaim)  # noqa: S101 - this port makes no other grants
    return claim.key, claim.token


class _Overtaken(Exception):
    """Another worker claimed one of the rows between our read and our write, so roll back."""
