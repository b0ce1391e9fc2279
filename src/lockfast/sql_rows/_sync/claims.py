# Generated from src/lockfast/sql_rows/_async/claims.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""The rows that one worker claims, one after another or several at once."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from lockfast.client._sync.acquisition import Acquisition
from lockfast.client._sync.client import Client, new_id
from lockfast.client._sync.lock import Lock
from lockfast.core.backoff import delay
from lockfast.dbapi._sync.connection import CallersConnection
from lockfast.errors import LeaseLost, LockError, NotOwner, OutcomeUnknown, StaleRow, StaleToken
from lockfast.model import Grant
from lockfast.options import ClientOptions, LockOptions, checked_count, checked_poll, checked_ttl
from lockfast.runtime import threads as runtime
from lockfast.runtime.clock import Clock
from lockfast.sql_rows._sync.row_leases import OwnConnections, RowLeases
from lockfast.sql_rows.claiming import Claimable, RowClaim
from lockfast.sql_rows.ending_threads import do_afterwards
from lockfast.sql_rows.sigterm import StopsAtSigterm
from lockfast.sql_rows.tables import Row

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

    from lockfast.client._sync.lease import Lease
    from lockfast.dbapi.statements import Table


# A row that one worker has claimed for a while.


class ClaimedRow(Row):
    """A row as a mapping from column names to values, with a lease that is renewed.

    Leaving the row's `with` block gives an unfinished row back, even after an exception. If nothing
    references the row any more, it can be claimed again when its ttl has run out.
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
        self._lock = lock  # the lease has only a weak reference to it
        self._claim = claim
        self._claimable = worker.claimable
        self._worker = worker

    @property
    def token(self) -> int:
        """A number that is larger than the token of every earlier claim of this row."""
        return self._claim.token

    def check(self) -> None:
        """Raise LeaseLost if another worker may have the row by now; no I/O."""
        self.lease.check()

    def finish(self, connection: Any = None, /, **changes: object) -> None:  # noqa: ANN401
        """Write the result and end the claim; raise StaleToken if another worker has the row.

        Only the database decides, so a late result is accepted if no other worker has claimed the
        row. `changes` should remove the row from the set of rows that can be claimed; otherwise the
        row is claimed again. If you pass a connection, the write is part of your transaction there,
        and takes effect when you commit.
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
        # Do not wait inside the caller's transaction. A renewal under way may be waiting for that
        # transaction to commit, which happens only after we have returned.
        self._worker.end_when_done(waits=connection is None)

    def _finish_by_ourselves(self, changes: Mapping[str, object]) -> LockError | None:
        def work(callers: CallersConnection) -> LockError | None:
            return self._finish(callers, changes)

        try:
            return self._worker.connections.use(work)
        except LockError:
            raise
        except Exception as error:  # any driver may raise this error
            raise OutcomeUnknown(
                f"whether {self.lease.name!r} was finished is not known: {error}",
                name=self.lease.name,
            ) from error

    def _finish(
        self, callers: CallersConnection, changes: Mapping[str, object]
    ) -> LockError | None:
        """Return None if the row was finished, otherwise the error that explains why not."""
        claim, name = self._claim, self.lease.name
        ours = claim.key, claim.token
        statement = self._claimable.finish(callers.dialect, *ours, changes)
        if callers.run(statement).changed == 1:
            return None
        found = callers.run(self._claimable.current_token(callers.dialect, claim.key)).rows
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
        """Give the row back unchanged, for others to claim; LeaseLost if its lease had ended."""
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


# The resources that all rows of one worker share: the client that renews the rows, and the
# connections.

Claimed = tuple[Acquisition, ClaimedRow]
"""A row, and the acquisition that gives the row back if the caller never receives it."""


class Worker:
    """Claims rows; it lives until its loop has ended and its last row is finished or released."""

    def __init__(self, claimable: Claimable, connections: OwnConnections, *, ttl: float) -> None:
        self.claimable = claimable
        self.connections = connections
        self.clock: Clock = Clock()
        self._options = LockOptions(ttl=ttl, reentrant=False)
        self._rows = RowLeases(  # type: ignore[abstract]
            claimable, connections, self.clock
        )
        self._client = Client(self._rows, ClientOptions(ttl=ttl, clock=self.clock))
        self._is_over = False

    def claim(self, limit: int) -> list[Claimed] | None:
        """Return rows that are ours now; None if other transactions have locked all candidates."""
        sent_at = self.clock.now()
        found = self._rows.claim(limit, self._options.ttl)
        if found is None:
            return None
        token, rows = found
        claimed = [self._believed(one, token, sent_at) for one in rows]
        return [one for one in claimed if one is not None]

    def _believed(self, row: dict[str, Any], token: int, sent_at: float) -> Claimed | None:
        key, client = self.claimable.of_row(row), self._client
        lock = Lock(client, self._rows.name_of(key), self._options)
        claim = RowClaim(
            id=new_id(),
            name=lock.name,
            client=client.id,
            owner=client.owner_text,
            weight=1,
            capacity=1,
            ttl=self._options.ttl,
            key=key,
            token=token,
        )
        attempt = Acquisition(client, lock, timeout=0.0, claim=claim)
        attempt.owes = True
        hold = attempt.accept_grant(Grant(claim, token, claim.ttl), sent_at)
        if hold is None:
            # The claim took so long that another worker may have the row, so the row was given
            # back.
            return None
        lease = attempt.lease_on(hold)
        return attempt, ClaimedRow(row, lease=lease, lock=lock, claim=claim, worker=self)

    def end_when_done(self, *, is_over: bool = False, waits: bool = True) -> None:
        """Close the client if the loop has ended and no row is held any more.

        This waits for a renewal that is under way. With `waits=False`, only the idle connection is
        closed, and the client's background work ends by itself when nothing is left to do.
        """
        self._is_over = self._is_over or is_over
        if self._is_over and not self._client.holds:
            (self._client.close() if waits else self.connections.close())

    def close(self) -> None:
        """Close now, even if rows are still held; their leases are lost."""
        self._client.close()


STOP_LATENCY_SECONDS = 0.05
"""Interval at which an idle loop checks for a stop request, in seconds. A signal handler can only
set a flag, so the flag has to be polled.
"""
CLAIM_TRIES = 12
"""Number of attempts, over a few seconds, when other transactions have locked every claimable row.
"""


def claim_rows(
    connect: Callable[[], Any],
    table: Table,
    *,
    key: str | Sequence[str],
    where: Mapping[str, object],
    order_by: str | Sequence[str] | None = None,
    limit: int = 1,
    ttl: float = 30.0,
    poll: float | None = None,
    until: str = "claimed_until",
    token: str = "claim_token",  # noqa: S107 - the name of a column, not a secret
) -> ClaimedRows:
    """Return an iterator over the rows that this worker claims, the oldest first.

    No two workers have the same row at once. A row is claimed for `ttl` seconds, and the claim is
    renewed until the row is finished or released. If a worker crashes, its row can be claimed again
    after the ttl. If a worker is so slow that another worker has claimed the row, its result is
    rejected (StaleToken). Up to `limit` rows are claimed at once. When no row is left, the loop
    ends. With `poll`, the loop instead looks for rows again every `poll` seconds, until SIGTERM or
    `stop()`.

    `connect` returns a new connection each time; we commit and close it. `until` and `token` are
    two columns of the table, a double and a 64-bit integer, both NULL or 0 at first. Times are
    those of the database's own clock.
    """
    claimable = Claimable.of(
        table, key=key, where=where, order_by=order_by, until=until, token=token
    )
    make = partial(
        Worker,
        claimable,
        OwnConnections(connect),
        ttl=checked_ttl(ttl, minimum=RowLeases.min_ttl),
    )
    # The worker is created when the first row is requested, on the loop to which it will be bound.
    return ClaimedRows(make, limit=checked_count("limit", limit), poll=checked_poll(poll))


class ClaimedRows:
    """An iterator over claimed rows; leaving its `with` block gives back rows not handed out."""

    _is_over = True  # in case an interrupt ends the constructor
    _signal: StopsAtSigterm | None = None

    def __init__(
        self,
        make: Callable[[], Worker],
        *,
        limit: int,
        poll: float | None,
    ) -> None:
        self._make = make
        self._worker: Worker | None = None
        self._limit = limit
        self._poll = poll
        self._waiting: deque[Claimed] = deque()
        self._is_stopped = False
        self._is_over = False

    def __del__(self) -> None:
        # A `for` statement does not report that it was left early. If that happens, the client's
        # background gives back rows that were claimed and not handed out. This method makes sure
        # that no connection stays open, and that no signal handler remains for a loop that is gone.
        if self._signal is not None:
            self._signal.undo()
        if not self._is_over and self._worker is not None:
            do_afterwards(self._worker.connections.close)

    def stop(self) -> None:
        """End the loop before its next row; callable from any thread or signal handler."""
        self._is_stopped = True

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ClaimedRow:
        if self._signal is None and not self._is_over:
            self._signal = StopsAtSigterm(self)
        while not self._is_stopped and not self._is_over:
            if self._waiting:
                attempt, row = self._waiting[0]
                if not row.lease.is_trusted:
                    # The row was in this queue for longer than its ttl, and no renewal succeeded,
                    # so another worker may have it by now.
                    self._give_back_next()
                    continue
                self._waiting.popleft()
                # From here on the caller has the row, because no interrupt strikes before the
                # return.
                attempt.owes = False
                return row
            if self._claim():
                continue
            if self._poll is None:
                break
            self._pause(self._poll)
        try:
            self._end()
        finally:
            if self._worker is not None:
                self._worker.end_when_done(is_over=True)
        raise StopIteration

    def _claim(self) -> bool:
        """Claim some rows; return whether there were any."""
        worker = self._worker = self._worker or self._make()
        for attempt in range(CLAIM_TRIES):
            found = worker.claim(self._limit)
            if found is not None:
                self._waiting.extend(found)
                return bool(found)
            self._pause(delay(attempt, jitter=worker.clock.jitter(), first=0.02, most=0.5))
            if self._is_stopped:
                break
        return False

    def _pause(self, seconds: float) -> None:
        clock = Clock()
        until = clock.now() + seconds
        while not self._is_stopped and (left := until - clock.now()) > 0:
            runtime.sleep(min(left, STOP_LATENCY_SECONDS))

    def _end(self) -> None:
        """Give back the rows that were claimed and not handed out, and claim no further rows.

        After a failure, the remaining rows are still given back; the first failure is raised at the
        end.
        """
        self._is_over = True
        if self._signal is not None:
            self._signal.undo()
        failure: LockError | None = None
        while self._waiting:
            try:
                self._give_back_next()
            except LockError as error:
                failure = failure or error
        if failure is not None:
            raise failure

    def _give_back_next(self) -> None:
        attempt, row = self._waiting.popleft()
        attempt.owes = False
        with suppress(LeaseLost):  # another worker has the row already
            row.release()

    def close(self) -> None:
        """Give back rows that were not handed out, and end; the leases of held rows are lost."""
        try:
            self._end()
        finally:
            if self._worker is not None:
                self._worker.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
