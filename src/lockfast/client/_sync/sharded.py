# Generated from src/lockfast/client/_async/sharded.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""A lock that is split into shards; a caller takes any free shard."""

from __future__ import annotations

import itertools
import weakref
from typing import TYPE_CHECKING, Unpack

from lockfast.client._sync.acquisition import AcquireGroup, Acquisition, Refused
from lockfast.client._sync.handle import OpenBlocks, ReleaseGuard
from lockfast.client._sync.lease import Lease
from lockfast.client._sync.lock import Lock
from lockfast.core.backoff import spread
from lockfast.core.naming import checked_name
from lockfast.core.sharding import FIRST_SHARD_LOOK_SECONDS, MoveToShard, Outlook, shard_name
from lockfast.errors import (
    AcquireTimeout,
    BackendError,
    ConfigurationError,
    LeaseLost,
    LockError,
    OutcomeUnknown,
    shards_timeout,
)
from lockfast.model import FOREVER
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
from lockfast.runtime import threads as runtime
from lockfast.runtime.fork import NotPicklable

if TYPE_CHECKING:
    from types import TracebackType

    from lockfast.client._sync.acquisition import Cancel
    from lockfast.client._sync.client import Client
    from lockfast.client._sync.handle import Handle


SHARD_MIN_WAIT_SECONDS = 1e-6


class ShardLease(Lease):
    """A lease on one shard; `shard` is its number, counted from 0.

    The token orders only the holders of this shard; tokens of two shards cannot be compared.
    """

    __slots__ = ("shard",)

    def __init__(self, handle: Handle, shard: int) -> None:
        super().__init__(handle)
        self.shard: int = shard


class Sharded(NotPicklable):
    """A set of locks, one per shard; a caller gets any free shard.

    Each shard is a lock of its own, called `stock#0`, `stock#1` and so on (see `names`). To get a
    certain shard, acquire the lock with the shard's name. A thread or task that holds a shard and
    asks again gets the same shard again, unless reentrant=False.
    """

    _advice = "pass on its name and its number of shards, and make it there"

    def __init__(self, client: Client, name: str, options: LockOptions, *, shards: int) -> None:
        self.name: str = checked_name(name)
        self.shards: int = checked_shards(shards)
        if options.owner is not None:
            raise ConfigurationError("owner= belongs to lock(); a sharded lock has none")
        self.names: tuple[str, ...] = tuple(shard_name(name, one) for one in range(shards))
        self._client = client
        self._options = options
        self._locks = tuple(Lock(client, one, options) for one in self.names)
        # The first shard is random, so that processes do not try the shards in step. The other
        # shards follow in turn.
        self._turns = itertools.count(int(client.clock.jitter() * shards))
        self._entered: OpenBlocks[ShardLease] = OpenBlocks(client)
        self.delays_look: bool = False
        """Whether a waiter delays its first look at the other shards."""

    @runtime.must_be_awaited
    def acquire_any(
        self,
        *,
        timeout: float | Unset | None = UNSET,
        cancel: Cancel | None = None,
        **others: Unpack[NoKeywords],
    ) -> ShardLease:
        """Return a lease on a free shard, or wait until one becomes free.

        `timeout` and `cancel` mean the same as for `acquire` of a lock.
        """
        seconds = self._options.timeout if timeout is UNSET else checked_timeout(timeout)
        if cancel is not None:
            checked_cancel(cancel)
        if others:
            checked_keywords(others, accepted=("timeout", "cancel"), what="acquire_any()")
        shard_acquisition = _ShardAcquisition(self, seconds, cancel)
        try:
            lease = shard_acquisition.run()
            shard_acquisition.together.owes = (
                False  # the caller has the lease now, as no interrupt strikes before return
            )
            return lease  # noqa: TRY300 - as above
        except BaseException:
            shard_acquisition.leave_behind()
            raise

    @runtime.must_be_awaited
    def try_acquire_any(self) -> ShardLease | None:
        """Return a lease on a free shard, or None if none is free; never joins a line."""
        shard_acquisition = _ShardAcquisition(self, 0.0, None)
        try:
            lease = shard_acquisition.run()
            shard_acquisition.together.owes = False  # as in `acquire_any`
            return lease  # noqa: TRY300 - as in `acquire_any`
        except AcquireTimeout:
            return None
        except BaseException:
            shard_acquisition.leave_behind()
            raise

    def lock_of(self, shard: int) -> Lock:
        """Return the lock of a shard."""
        return self._locks[shard]

    def next_turn(self) -> int:
        """Return the shard to ask first; successive calls return the shards in turn."""
        return next(self._turns) % self.shards

    def __enter__(self) -> ShardLease:
        shard_acquisition = _ShardAcquisition(self, self._options.timeout, None)
        try:
            lease = shard_acquisition.run()
            try:
                lease.enter_block(shard_acquisition.context)
            except LeaseLost:
                lease.release()  # raises LeaseLost too
                raise
            handles = [handle for one in shard_acquisition.attempts for handle in one.handles]
            release_guard = ReleaseGuard(self._client, handles, entered=self._entered, block=lease)
            self._entered.push(lease)
            runtime.keep_for_block(self, release_guard)
            shard_acquisition.together.owes = False  # from here on, the block ends the lease
            return lease  # noqa: TRY300 - as above
        except BaseException:
            shard_acquisition.leave_behind()
            raise

    @runtime.leaves_block
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._entered.pop().__exit__(kind, error, trace)

    @property
    def client(self) -> Client:
        """The client that made this lock."""
        return self._client

    def __repr__(self) -> str:
        where = self._client.backend.location
        return f"<{type(self).__name__} {self.name!r} shards={self.shards} at {where}>"


class _ShardAcquisition:
    """One call to acquire_any, with all acquires that it has begun.

    The object exists before the first request, and belongs to the calling frames. If these frames
    end before everything is cleaned up, the background does the rest of the cleanup, as for a
    single lock.
    """

    def __init__(self, sharded: Sharded, timeout: float | None, cancel: Cancel | None) -> None:
        self.sharded = sharded
        self.client = sharded.client
        self.context = runtime.context()
        self.together = AcquireGroup()
        self.attempts: list[Acquisition] = []
        self.timeout = timeout
        self._cancel = cancel
        self._began = self.client.clock.now()
        self.deadline = FOREVER if timeout is None else self._began + timeout

    def run(self) -> ShardLease:
        """Return the lease, or raise and leave nothing behind."""
        if self.client.holds.may_have_any(self.sharded.names):
            for shard in range(self.sharded.shards):
                if self._holds(shard):
                    return self._enter(shard, self.timeout)
        shard = self.sharded.next_turn()
        try:
            if self.timeout == 0:
                return self._first_free(shard)
            return self._stand_in_lines(shard)
        except AcquireTimeout as error:
            name, shards = self.sharded.name, self.sharded.shards
            # `waited` is the time in all lines together; `error` has only the time in the last
            # line.
            waited = self.client.clock.now() - self._began if self.timeout else 0.0
            raise shards_timeout(name, error, shards=shards, waited=waited) from None

    def leave_behind(self) -> None:
        """Let the background end the acquires whose leases do not reach the caller."""
        for one in self.attempts:
            one.leave_behind()

    def _holds(self, shard: int) -> bool:
        hold = self.client.holds.of(self.context, self.sharded.names[shard])
        return hold is not None and hold.has_handles()

    def _first_free(self, first: int) -> ShardLease:
        shards = self.sharded.shards
        for step in range(shards - 1):
            lease = self.tried((first + step) % shards)
            if lease is not None:
                return lease
        return self._enter((first - 1) % shards, 0.0)

    def tried(self, shard: int) -> ShardLease | None:
        """Return a lease on this shard if it is free, otherwise None."""
        attempt = self._attempt(shard, 0.0)
        answer = attempt.run()
        if isinstance(answer, Refused):
            return None
        return ShardLease(attempt.handles[0], shard)

    def _stand_in_lines(self, shard: int) -> ShardLease:
        while True:
            left = None
            if self.timeout is not None:
                # Never pass 0, because then the acquire would not wait at all.
                left = max(SHARD_MIN_WAIT_SECONDS, self.deadline - self.client.clock.now())
            looking = _ShardLooks(self, shard)
            try:
                lease = self._enter(shard, left, looking)
            except MoveToShard:
                if looking.lease is not None:
                    return looking.lease
                shard = looking.moves_to
            except BaseException as error:
                # A cancellation or an interrupt may strike while we leave the line. If a lease on
                # another shard was taken, it must not stay held for as long as something references
                # the error and its frames.
                if looking.lease is not None:
                    self._give_back(looking.lease, error)
                raise
            else:
                looking.was_admitted()
                return lease

    def _give_back(self, lease: ShardLease, error: BaseException) -> None:
        try:
            runtime.shield(lease.release())
        except LockError as failure:
            error.add_note(f"lockfast: {failure}")  # the release continues in the background

    def _enter(
        self, shard: int, timeout: float | None, looking: _ShardLooks | None = None
    ) -> ShardLease:
        attempt = self._attempt(shard, timeout, cancel=self._cancel)
        attempt.looking = looking
        self.sharded.lock_of(shard).granted(attempt)
        return ShardLease(attempt.handles[0], shard)

    def _attempt(
        self, shard: int, timeout: float | None, *, cancel: Cancel | None = None
    ) -> Acquisition:
        attempt = Acquisition(
            self.client,
            self.sharded.lock_of(shard),
            timeout=timeout,
            cancel=cancel,
            together=self.together,
        )
        self.attempts.append(attempt)
        return attempt


class _ShardLooks:
    """Looks at the other shards from time to time, for a waiter in line at one shard."""

    def __init__(self, shard_acquisition: _ShardAcquisition, own: int) -> None:
        # The reference is weak, because `_ShardAcquisition` references the acquire that uses this
        # object. With a cycle of references, Python would not drop the `_ShardAcquisition`, and so
        # not clean up, when an interrupt has ended its frames.
        self._taking = weakref.ref(shard_acquisition)
        self._client = shard_acquisition.client
        self._sharded = shard_acquisition.sharded
        self._outlook = Outlook(own, is_delayed=shard_acquisition.sharded.delays_look)
        self._due: float | None = None
        self._since = 0.0
        self.lease: ShardLease | None = None
        self.moves_to = own

    def look(self) -> float:
        """Look at the other shards; return when to look again, or raise MoveToShard to move."""
        clock = self._client.clock
        now = clock.now()
        if self._sharded.shards == 1:
            return FOREVER  # there are no other shards
        if self._due is None:
            self._since = now
            self._due = self._next_look(now)
        if now < self._due:
            return self._due
        try:
            crowds = self._client.backend.crowds(
                self._sharded.names, deadline=now + self._client.request_timeout
            )
            self._outlook = self._outlook.after(crowds)
            self._sharded.delays_look = self._outlook.is_crowded()
            self._try_vacant()
        except (BackendError, OutcomeUnknown) as error:
            # The place in line is safe, and the next request from there would report an outage.
            self._client.logger.debug("the other shards were not looked at: %s", error)
        faster_shard = self._outlook.faster_shard()
        if faster_shard is not None:
            self.moves_to = faster_shard
            raise MoveToShard
        self._due = self._next_look(clock.now())
        return self._due

    def was_admitted(self) -> None:
        """Note that the caller was admitted in its own line, or did not need to wait."""
        if (
            self._due is not None
            and self._client.clock.now() < self._since + FIRST_SHARD_LOOK_SECONDS
        ):
            self._sharded.delays_look = True

    def _next_look(self, now: float) -> float:
        pause = self._outlook.next_in
        return now + spread(pause, jitter=self._client.clock.jitter()) if pause else now

    def _try_vacant(self) -> None:
        shard_acquisition = self._taking()
        assert shard_acquisition is not None  # noqa: S101 - the waiting frames reference it
        for shard in self._outlook.vacant():
            # Try no shard after the deadline, because the whole call must end within one more
            # request.
            if self._client.clock.now() >= shard_acquisition.deadline:
                return
            self.lease = shard_acquisition.tried(shard)
            if self.lease is not None:
                raise MoveToShard
