"""One row that is ours for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from lockfast.connections._async.callers import AsyncCallersConnection
from lockfast.errors import LockError, NotOwner, OutcomeUnknown, StaleRow, StaleToken
from lockfast.runtime import aio as runtime
from lockfast.sql_rows.rows import Row

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from lockfast._async.lease import AsyncLease
    from lockfast._async.lock import AsyncLock
    from lockfast.sql_rows._async.worker import AsyncWorker
    from lockfast.sql_rows.claiming import RowClaim


class AsyncClaimedRow(Row):
    """A row by the names of its columns, and the lease on it, which is renewed.

    In a `with` statement it is given back when the block is left unfinished, also by an
    exception. Kept by nobody, it comes back when its ttl has run out.
    """

    def __init__(
        self,
        columns: dict[str, Any],
        *,
        lease: AsyncLease,
        lock: AsyncLock,
        claim: RowClaim,
        worker: AsyncWorker,
    ) -> None:
        super().__init__(columns)
        self.lease = lease
        self._lock = lock  # known to the lease only weakly
        self._claim = claim
        self._claimable = worker.claimable
        self._worker = worker

    @property
    def token(self) -> int:
        """Larger than that of every earlier claim of this row."""
        return self._claim.token

    def check(self) -> None:
        """Raise LeaseLost if the row may be somebody else's by now; no I/O."""
        self.lease.check()

    async def finish(self, connection: Any = None, /, **changes: object) -> None:  # noqa: ANN401
        """Write what came of it, and be done; StaleToken if another has claimed the row since.

        The database alone decides: what comes late is taken if nobody else has had the row.
        `changes` should take the row out of those that are claimed, or it comes again. With a
        connection it is part of your transaction there, and counts when that is committed.
        """
        claimable = self._claimable
        claimable.keyed.refuse_own(changes, claimable.until, claimable.token)
        if connection is not None:
            failure = await self._finish(AsyncCallersConnection(connection), changes)
        else:
            failure = await runtime.shield(self._finish_by_ourselves(changes))
        if failure is not None:
            raise failure
        self.lease.give_up("finished")
        # Inside the caller's transaction nothing is waited for: a renewal under way may wait for
        # its commit, which comes after we have returned.
        await self._worker.end_when_done(waits=connection is None)

    async def _finish_by_ourselves(self, changes: Mapping[str, object]) -> LockError | None:
        async def work(callers: AsyncCallersConnection) -> LockError | None:
            return await self._finish(callers, changes)

        try:
            return await self._worker.connections.use(work)
        except LockError:
            raise
        except Exception as error:  # of whichever driver the caller has
            raise OutcomeUnknown(
                f"whether {self.lease.name!r} was finished is not known: {error}",
                name=self.lease.name,
            ) from error

    async def _finish(
        self, callers: AsyncCallersConnection, changes: Mapping[str, object]
    ) -> LockError | None:
        """Return why not."""
        claim, name = self._claim, self.lease.name
        ours = claim.key, claim.token
        statement = self._claimable.finish(callers.dialect, *ours, changes)
        if (await callers.run(statement)).changed == 1:
            return None
        found = (await callers.run(self._claimable.who_has(callers.dialect, claim.key))).rows
        if not found:
            return StaleRow(f"the row of {name!r} is gone", name=name)
        [[seen]] = found
        if seen == claim.token:
            return NotOwner(f"{name!r} was finished or given back before", name=name)
        return StaleToken(
            f"{name!r} was claimed by another since: our token is {claim.token}, and it has "
            f"{seen} now",
            name=name,
            token=claim.token,
            seen=seen,
        )

    async def release(self) -> None:
        """Give the row back as it is: others may claim it at once. LeaseLost if it was over."""
        try:
            await self.lease.release()
        finally:
            await self._worker.end_when_done()

    async def __aenter__(self) -> Self:
        await self.lease.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self.lease.__aexit__(kind, error, trace)
        finally:
            await self._worker.end_when_done()

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.lease.name!r} token={self.token}>"
