"""A lock that was split into shards: whoever comes takes any that is free."""

from __future__ import annotations

import itertools
import weakref
from typing import TYPE_CHECKING, Unpack

from lockfast._async.acquiring import AsyncAcquisition, Refused, Together
from lockfast._async.handle import AsyncDuty
from lockfast._async.lease import AsyncLease
from lockfast._async.lock import AsyncLock
from lockfast._async.open_blocks import AsyncOpenBlocks
from lockfast.core.backoff import spread
from lockfast.core.naming import checked_name
from lockfast.core.sharding import FIRST_LOOK, Elsewhere, Outlook, shard_name
from lockfast.core.staying import StaysHere
from lockfast.errors import (
    AcquireTimeout,
    BackendError,
    ConfigurationError,
    LeaseLost,
    LockError,
    OutcomeUnknown,
)
from lockfast.options import (
    UNSET,
    LockOptions,
    NoKeywords,
    Unset,
    checked_cancel,
    checked_keywords,
    checked_shards,
    checked_timeout,
)
from lockfast.runtime import aio as runtime

if TYPE_CHECKING:
    from types import TracebackType

    from lockfast._async.acquiring import Cancel
    from lockfast._async.client import AsyncClient
    from lockfast._async.handle import AsyncHandle


SHORTEST_WAIT = 1e-6


class AsyncShardLease(AsyncLease):
    """A lease on one shard; `shard` says which, counted from 0.

    Its token orders the holders of this shard alone. Between two shards tokens say nothing.
    """

    __slots__ = ("shard",)

    def __init__(self, handle: AsyncHandle, shard: int) -> None:
        super().__init__(handle)
        self.shard: int = shard


class AsyncSharded(StaysHere):
    """As many locks as there are shards; whoever comes gets one of them.

    Each shard is a lock of its own, called `stock#0`, `stock#1` and so on (`names`): who needs a
    certain one takes that by its name. The thread or task that holds a shard and asks again gets
    the same one again, unless it is reentrant=False.
    """

    _goes_instead = "pass on its name and its number of shards, and make it there"

    def __init__(
        self, client: AsyncClient, name: str, options: LockOptions, *, shards: int
    ) -> None:
        self.name: str = checked_name(name)
        self.shards: int = checked_shards(shards)
        if options.owner is not None:
            raise ConfigurationError("owner= belongs to lock(); a sharded lock has none")
        self.names: tuple[str, ...] = tuple(shard_name(name, one) for one in range(shards))
        self._client = client
        self._options = options
        self._locks = tuple(AsyncLock(client, one, options) for one in self.names)
        # By chance where it begins, so that processes do not go round in step; from there in turn.
        self._turns = itertools.count(int(client.clock.jitter() * shards))
        self._entered: AsyncOpenBlocks[AsyncShardLease] = AsyncOpenBlocks(client)
        self.puts_off: bool = False
        """Whether one who stands in line looks at the others only after a while."""

    @runtime.must_be_awaited
    async def acquire_any(
        self,
        *,
        timeout: float | Unset | None = UNSET,
        cancel: Cancel | None = None,
        **others: Unpack[NoKeywords],
    ) -> AsyncShardLease:
        """Return a lease on a shard that is free, or on the one that gets free for us.

        `timeout` and `cancel` are those of a lock's `acquire`.
        """
        seconds = self._options.timeout if timeout is UNSET else checked_timeout(timeout)
        checked_cancel(cancel)
        if others:
            checked_keywords(others, accepted=("timeout", "cancel"), what="acquire_any()")
        taking = _Taking(self, seconds, cancel)
        try:
            lease = await taking.run()
            taking.together.owes = False  # the caller has it: nothing strikes before the return
            return lease  # noqa: TRY300 - as above
        except BaseException:
            taking.leave_behind()
            raise

    @runtime.must_be_awaited
    async def try_acquire_any(self) -> AsyncShardLease | None:
        """Return a lease on a shard that is free, or None if none is; joins no line."""
        taking = _Taking(self, 0.0, None)
        try:
            lease = await taking.run()
            taking.together.owes = False  # as above
            return lease  # noqa: TRY300 - as above
        except AcquireTimeout:
            return None
        except BaseException:
            taking.leave_behind()
            raise

    def lock_of(self, shard: int) -> AsyncLock:
        """Return the lock of a shard."""
        return self._locks[shard]

    def next_turn(self) -> int:
        """Return the shard that is asked first: each in turn."""
        return next(self._turns) % self.shards

    async def __aenter__(self) -> AsyncShardLease:
        taking = _Taking(self, self._options.timeout, None)
        try:
            lease = await taking.run()
            try:
                lease.enter_block(taking.context)
            except LeaseLost:
                await lease.release()  # which says so too
                raise
            handles = [handle for one in taking.attempts for handle in one.handles]
            duty = AsyncDuty(self._client, handles, entered=self._entered, block=lease)
            self._entered.push(lease)
            runtime.keep_for_block(self, duty)
            taking.together.owes = False  # from here on the block has it
            return lease  # noqa: TRY300 - as in `acquire_any`
        except BaseException:
            taking.leave_behind()
            raise

    @runtime.leaves_block
    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._entered.pop().__aexit__(kind, error, trace)

    @property
    def client(self) -> AsyncClient:
        """The inside of what it was made by."""
        return self._client

    def __repr__(self) -> str:
        where = self._client.backend.location
        return f"<{type(self).__name__} {self.name!r} shards={self.shards} at {where}>"


class _Taking:
    """One call of acquire_any, and all that was asked for on its way.

    It is there before anything is asked, and belongs to the frames that ask: what they owe when
    they are gone is cleared up as it is for a single lock.
    """

    def __init__(self, sharded: AsyncSharded, timeout: float | None, cancel: Cancel | None) -> None:
        self.sharded = sharded
        self.client = sharded.client
        self.context = runtime.context()
        self.together = Together()
        self.attempts: list[AsyncAcquisition] = []
        self.timeout = timeout
        self._cancel = cancel
        self._began = self.client.clock.now()
        self.deadline = float("inf") if timeout is None else self._began + timeout

    async def run(self) -> AsyncShardLease:
        """Return the lease, or raise; then nothing is left behind."""
        if self.client.holds.may_have_any(self.sharded.names):
            for shard in range(self.sharded.shards):
                if self._holds(shard):
                    return await self._enter(shard, self.timeout)
        shard = self.sharded.next_turn()
        try:
            if self.timeout == 0:
                return await self._first_free(shard)
            return await self._stand_in_lines(shard)
        except AcquireTimeout as error:
            name, shards = self.sharded.name, self.sharded.shards
            # In all lines together: the error is of the last alone.
            waited = self.client.clock.now() - self._began if self.timeout else 0.0
            raise AcquireTimeout(
                f"none of the {shards} shards of {name!r} was free: {error}",
                name=name,
                waited=waited,
                holders=error.holders,
                place=error.place,
                closing=error.closing,
            ) from None

    def leave_behind(self) -> None:
        """Let the background end what no caller gets."""
        for one in self.attempts:
            one.leave_behind()

    def _holds(self, shard: int) -> bool:
        hold = self.client.holds.of(self.context, self.sharded.names[shard])
        return hold is not None and hold.has_handles()

    async def _first_free(self, first: int) -> AsyncShardLease:
        shards = self.sharded.shards
        for step in range(shards - 1):
            lease = await self.tried((first + step) % shards)
            if lease is not None:
                return lease
        return await self._enter((first - 1) % shards, 0.0)

    async def tried(self, shard: int) -> AsyncShardLease | None:
        """Return a lease on that very shard if it is free."""
        attempt = self._attempt(shard, 0.0)
        answer = await attempt.run()
        if isinstance(answer, Refused):
            return None
        return AsyncShardLease(attempt.handles[0], shard)

    async def _stand_in_lines(self, shard: int) -> AsyncShardLease:
        while True:
            left = None
            if self.timeout is not None:
                # Never 0: that would be one who did not mean to wait.
                left = max(SHORTEST_WAIT, self.deadline - self.client.clock.now())
            looking = _Looking(self, shard)
            try:
                lease = await self._enter(shard, left, looking)
            except Elsewhere:
                if looking.lease is not None:
                    return looking.lease
                shard = looking.moves_to
            except BaseException as error:
                # A cancellation or an interrupt while the line was left: what was taken elsewhere
                # must not be held for as long as somebody keeps the error and its frames.
                if looking.lease is not None:
                    await self._give_back(looking.lease, error)
                raise
            else:
                looking.was_let_in()
                return lease

    async def _give_back(self, lease: AsyncShardLease, error: BaseException) -> None:
        try:
            await runtime.shield(lease.release())
        except LockError as failure:
            error.add_note(f"lockfast: {failure}")  # it goes on in the background

    async def _enter(
        self, shard: int, timeout: float | None, looking: _Looking | None = None
    ) -> AsyncShardLease:
        attempt = self._attempt(shard, timeout, cancel=self._cancel)
        attempt.looking = looking
        await self.sharded.lock_of(shard).granted(attempt)
        return AsyncShardLease(attempt.handles[0], shard)

    def _attempt(
        self, shard: int, timeout: float | None, *, cancel: Cancel | None = None
    ) -> AsyncAcquisition:
        attempt = AsyncAcquisition(
            self.client,
            self.sharded.lock_of(shard),
            timeout=timeout,
            cancel=cancel,
            together=self.together,
        )
        self.attempts.append(attempt)
        return attempt


class _Looking:
    """How one who stands in line at a shard hears of the others."""

    def __init__(self, taking: _Taking, own: int) -> None:
        # Weakly: the acquire that looks by this is known to the whole, and a circle would keep it
        # from being dropped, and cleared up, when an interrupt has ended its frames.
        self._taking = weakref.ref(taking)
        self._client = taking.client
        self._sharded = taking.sharded
        self._outlook = Outlook(own, is_put_off=taking.sharded.puts_off)
        self._due: float | None = None
        self._since = 0.0
        self.lease: AsyncShardLease | None = None
        self.moves_to = own

    async def look(self) -> float:
        """Return when to look again; raises if the line is to be left."""
        clock = self._client.clock
        now = clock.now()
        if self._sharded.shards == 1:
            return float("inf")  # there are no others
        if self._due is None:
            self._since = now
            self._due = self._next_look(now)
        if now < self._due:
            return self._due
        try:
            crowds = await self._client.backend.crowds(
                self._sharded.names, deadline=now + self._client.request_timeout
            )
            self._outlook = self._outlook.after(crowds)
            self._sharded.puts_off = self._outlook.is_crowded()
            await self._try_vacant()
        except (BackendError, OutcomeUnknown) as error:
            # The place in line is ours all the same, and asking for it tells of an outage.
            self._client.logger.debug("the other shards were not looked at: %s", error)
        livelier = self._outlook.livelier()
        if livelier is not None:
            self.moves_to = livelier
            raise Elsewhere
        self._due = self._next_look(clock.now())
        return self._due

    def was_let_in(self) -> None:
        """Know that its own line let it in, or that it did not have to stand there."""
        if self._due is not None and self._client.clock.now() < self._since + FIRST_LOOK:
            self._sharded.puts_off = True

    def _next_look(self, now: float) -> float:
        pause = self._outlook.next_in
        return now + spread(pause, jitter=self._client.clock.jitter()) if pause else now

    async def _try_vacant(self) -> None:
        taking = self._taking()
        assert taking is not None  # noqa: S101 - the frames that wait have it
        for shard in self._outlook.vacant():
            # Not after the time is up: the whole must end within one request more.
            if self._client.clock.now() >= taking.deadline:
                return
            self.lease = await taking.tried(shard)
            if self.lease is not None:
                raise Elsewhere
