# Generated from src/lockfast/sql_rows/_async/claimed_row.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""One row that is ours for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from lockfast.connections._sync.callers import CallersConnection
from lockfast.errors import LockError, NotOwner, OutcomeUnknown, StaleRow, StaleToken
from lockfast.runtime import threads as runtime
from lockfast.sql_rows.rows import Row

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from lockfast._sync.lease import Lease
    from lockfast._sync.lock import Lock
    from lockfast.sql_rows._sync.worker import Worker
    from lockfast.sql_rows.claiming import RowClaim


class ClaimedRow(Row):
    """A row by the names of its columns, and the lease on it, which is renewed.

    In a `with` statement it is given back when the block is left unfinished, also by an
    exception. Kept by nobody, it comes back when its ttl has run out.
    """

    def __init__(
        self,
        columns: dict[str, Any],
        *,
        lease: Lease,
        lock: Lock,
        claim: RowClaim,
        worker: Worker,
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

    def finish(self, connection: Any = None, /, **changes: object) -> None:  # noqa: ANN401
        """Write what came of it, and be done; StaleToken if another has claimed the row since.

        The database alone decides: what comes late is taken if nobody else has had the row.
        `changes` should take the row out of those that are claimed, or it comes again. With a
        connection it is part of your transaction there, and counts when that is committed.
        """
        claimable = self._claimable
        claimable.keyed.refuse_own(changes, claimable.until, claimable.token)
        if connection is not None:
            failure = self._finish(CallersConnection(connection), changes)
        else:
            failure = runtime.shield(self._finish_by_ourselves(changes))
        if failure is not None:
            raise failure
        self.lease.give_up("finished")
        # Inside the caller's transaction nothing is waited for: a renewal under way may wait for
        # its commit, which comes after we have returned.
        self._worker.end_when_done(waits=connection is None)

    def _finish_by_ourselves(self, changes: Mapping[str, object]) -> LockError | None:
        def work(callers: CallersConnection) -> LockError | None:
            return self._finish(callers, changes)

        try:
            return self._worker.connections.use(work)
        except LockError:
            raise
        except Exception as error:  # of whichever driver the caller has
            raise OutcomeUnknown(
                f"whether {self.lease.name!r} was finished is not known: {error}",
                name=self.lease.name,
            ) from error

    def _finish(
        self, callers: CallersConnection, changes: Mapping[str, object]
    ) -> LockError | None:
        """Return why not."""
        claim, name = self._claim, self.lease.name
        ours = claim.key, claim.token
        statement = self._claimable.finish(callers.dialect, *ours, changes)
        if callers.run(statement).changed == 1:
            return None
        found = callers.run(self._claimable.who_has(callers.dialect, claim.key)).rows
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

    def release(self) -> None:
        """Give the row back as it is: others may claim it at once. LeaseLost if it was over."""
        try:
            self.lease.release()
        finally:
            self._worker.end_when_done()

    def __enter__(self) -> Self:
        self.lease.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.lease.__exit__(kind, error, trace)
        finally:
            self._worker.end_when_done()

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.lease.name!r} token={self.token}>"
