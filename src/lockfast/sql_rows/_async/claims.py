"""The rows that one worker claims, one after the other or several at once."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from lockfast.core.backoff import delay
from lockfast.errors import LeaseLost, LockError
from lockfast.options import checked_count, checked_poll, checked_ttl
from lockfast.runtime import aio as runtime
from lockfast.runtime.clock import Clock
from lockfast.sql_rows._async.own_connections import AsyncOwnConnections
from lockfast.sql_rows._async.row_leases import AsyncRowLeases
from lockfast.sql_rows._async.worker import AsyncWorker
from lockfast.sql_rows.claiming import Claimable
from lockfast.sql_rows.ending.aio import do_afterwards
from lockfast.sql_rows.stopping import StopsAtSigterm

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

    from lockfast.connections.dialects import Table
    from lockfast.sql_rows._async.claimed_row import AsyncClaimedRow
    from lockfast.sql_rows._async.worker import Claimed

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
) -> AsyncClaimedRows:
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
        AsyncWorker,
        claimable,
        AsyncOwnConnections(connect),
        ttl=checked_ttl(ttl, minimum=AsyncRowLeases.min_ttl),
    )
    # Made at the first row, on the loop that it is then bound to.
    return AsyncClaimedRows(make, limit=checked_count("limit", limit), poll=checked_poll(poll))


class AsyncClaimedRows:
    """An iterator; leaving its `with` statement gives back what was claimed and not handed out."""

    _is_over = True  # for one that is interrupted before it is made
    _signal: StopsAtSigterm | None = None

    def __init__(
        self,
        make: Callable[[], AsyncWorker],
        *,
        limit: int,
        poll: float | None,
    ) -> None:
        self._make = make
        self._worker: AsyncWorker | None = None
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
            do_afterwards(self._worker.connections.aclose)

    def stop(self) -> None:
        """Let the loop end before its next row; from any thread, or from a signal's handler."""
        self._is_stopped = True

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> AsyncClaimedRow:
        if self._signal is None and not self._is_over:
            self._signal = StopsAtSigterm(self)
        while not self._is_stopped and not self._is_over:
            if self._waiting:
                attempt, row = self._waiting[0]
                if not row.lease.is_trusted:
                    # Another may have it by now, since it waited here for longer than its ttl
                    # while no renewal came through.
                    await self._give_back_next()
                    continue
                self._waiting.popleft()
                attempt.owes = False  # the caller has it: nothing strikes before the return
                return row
            if await self._claim():
                continue
            if self._poll is None:
                break
            await self._pause(self._poll)
        try:
            await self._end()
        finally:
            if self._worker is not None:
                await self._worker.end_when_done(is_over=True)
        raise StopAsyncIteration

    async def _claim(self) -> bool:
        """Claim some rows, if there are any."""
        worker = self._worker = self._worker or self._make()
        for attempt in range(TRIES):
            found = await worker.claim(self._limit)
            if found is not None:
                self._waiting.extend(found)
                return bool(found)
            await self._pause(delay(attempt, jitter=worker.clock.jitter(), first=0.02, most=0.5))
            if self._is_stopped:
                break
        return False

    async def _pause(self, seconds: float) -> None:
        clock = Clock()
        until = clock.now() + seconds
        while not self._is_stopped and (left := until - clock.now()) > 0:
            await runtime.sleep(min(left, STOP_LATENCY))

    async def _end(self) -> None:
        """Give back what was claimed and not handed out, and claim no more.

        All of it, whatever becomes of one: the first failure is told at the end.
        """
        self._is_over = True
        if self._signal is not None:
            self._signal.undo()
        failure: LockError | None = None
        while self._waiting:
            try:
                await self._give_back_next()
            except LockError as error:
                failure = failure or error
        if failure is not None:
            raise failure

    async def _give_back_next(self) -> None:
        attempt, row = self._waiting.popleft()
        attempt.owes = False
        with suppress(LeaseLost):  # then it is another's already
            await row.release()

    async def aclose(self) -> None:
        """Give back what was not handed out, and end: rows that are still held are lost."""
        try:
            await self._end()
        finally:
            if self._worker is not None:
                await self._worker.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()
