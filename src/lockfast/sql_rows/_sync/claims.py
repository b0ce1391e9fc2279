# Generated from src/lockfast/sql_rows/_async/claims.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""The rows that one worker claims, one after the other or several at once."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from lockfast.core.backoff import delay
from lockfast.errors import LeaseLost, LockError
from lockfast.options import checked_count, checked_poll, checked_ttl
from lockfast.runtime import threads as runtime
from lockfast.runtime.clock import Clock
from lockfast.sql_rows._sync.own_connections import OwnConnections
from lockfast.sql_rows._sync.row_leases import RowLeases
from lockfast.sql_rows._sync.worker import Worker
from lockfast.sql_rows.claiming import Claimable
from lockfast.sql_rows.ending.threads import do_afterwards
from lockfast.sql_rows.stopping import StopsAtSigterm

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

    from lockfast.connections.dialects import Table
    from lockfast.sql_rows._sync.claimed_row import ClaimedRow
    from lockfast.sql_rows._sync.worker import Claimed

STOP_LATENCY = 0.05
"""A signal can only leave a note: while nothing is to be done it is looked for so often."""
TRIES = 12
"""So often is asked again, in some seconds, when others lock all that may be claimed."""


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
    token: str = "claim_token",  # noqa: S107 - the name of a column
) -> ClaimedRows:
    """Return the rows that this worker claims, the oldest first, to be iterated over.

    Of several workers no two have the same row. A row is ours for `ttl` seconds and renewed until
    it is finished or released; that of a worker that crashed comes back then, and what a slow one
    brings after another has claimed the row is refused (StaleToken). Up to `limit` rows are
    claimed at once. When none is left the loop ends, or looks again every `poll` seconds, until
    SIGTERM or `stop()`.

    `connect` returns a new connection each time: it is committed and closed here. `until` and
    `token` are two columns of the table, a double and a whole number of 64 bits, both NULL or 0
    at first. The clock is the database's own.
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
    # Made at the first row, on the loop that it is then bound to.
    return ClaimedRows(make, limit=checked_count("limit", limit), poll=checked_poll(poll))


class ClaimedRows:
    """An iterator; leaving its `with` statement gives back what was claimed and not handed out."""

    _is_over = True  # for one that is interrupted before it is made
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
        # A `for` statement says to nobody that it was left. What was claimed and not handed out is
        # given back by the client's background; here, that no connection is left open, and that
        # a signal finds no handler for a loop that is gone.
        if self._signal is not None:
            self._signal.undo()
        if not self._is_over and self._worker is not None:
            do_afterwards(self._worker.connections.close)

    def stop(self) -> None:
        """Let the loop end before its next row; from any thread, or from a signal's handler."""
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
                    # Another may have it by now, since it waited here for longer than its ttl
                    # while no renewal came through.
                    self._give_back_next()
                    continue
                self._waiting.popleft()
                attempt.owes = False  # the caller has it: nothing strikes before the return
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
        """Claim some rows, if there are any."""
        worker = self._worker = self._worker or self._make()
        for attempt in range(TRIES):
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
            runtime.sleep(min(left, STOP_LATENCY))

    def _end(self) -> None:
        """Give back what was claimed and not handed out, and claim no more.

        All of it, whatever becomes of one: the first failure is told at the end.
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
        with suppress(LeaseLost):  # then it is another's already
            row.release()

    def close(self) -> None:
        """Give back what was not handed out, and end: rows that are still held are lost."""
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
