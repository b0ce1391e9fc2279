# Generated from src/lockfast/client/_async/lock.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""A lock by name: cheap, shareable, a context manager and a decorator."""

from __future__ import annotations

import functools
import weakref
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, Unpack

from lockfast.client._sync.acquisition import Acquisition, Refused
from lockfast.client._sync.deadlock import warn_of_braces, warn_of_shared_owner
from lockfast.client._sync.handle import OpenBlocks, ReleaseGuard, added, each, without
from lockfast.client._sync.lease import Lease, lease_on
from lockfast.core.admission import would_wait
from lockfast.core.naming import checked_name, decorated_generator, generator_kind
from lockfast.errors import (
    ConfigurationError,
    LeaseLost,
    NotOwner,
    WouldDeadlock,
    acquire_timeout,
)
from lockfast.model import ALL
from lockfast.options import (
    UNSET,
    LockOptions,
    NoKeywords,
    Unset,
    checked_cancel,
    checked_capacity,
    checked_keywords,
    checked_permits,
    checked_timeout,
    checked_ttl,
)
from lockfast.runtime import threads as runtime
from lockfast.runtime.fork import NotPicklable

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from lockfast.client._sync.acquisition import Cancel
    from lockfast.client._sync.client import Client
    from lockfast.client._sync.handle import Handle, SmallSet
    from lockfast.client._sync.hold import Hold
    from lockfast.errors import AcquireTimeout

P = ParamSpec("P")
R = TypeVar("R")

UNRELEASED = (
    "this thread or task took it and has not released it; to keep others out for a while after "
    "a piece of work, release it and say min_hold="
)


class Lock(NotPicklable):
    """A lock with at most one holder at a time, as far as the backend can guarantee it.

    One object may be shared by threads and tasks. A thread or task that already holds the lock gets
    another handle on the same hold, without a request to the store.
    """

    weight = 1
    capacity = 1
    _advice = "pass on its name, and make the lock there"

    def __init__(self, client: Client, name: str, options: LockOptions) -> None:
        self.name: str = checked_name(name)
        if "{" in name:
            warn_of_braces(client, name)
        self.options = options
        self._client = client
        self.ref: weakref.ref[Lock] = weakref.ref(self)
        """A weak reference for holds and handles; created once, because every acquire needs it."""
        # The handles in order of acquisition. A caller may discard the lease that `acquire`
        # returns, and end the lease with `release`.
        self._handles: SmallSet[Handle] = None
        self._entered: OpenBlocks[Lease] = OpenBlocks(client)
        if options is not client.fitting:
            _refuse_misfit(client, options)
            # The next lock usually has the same options, so these need not be checked again.
            # Options with a hook are not remembered, because the hook would then live as long as
            # the client.
            client.fitting = None if options.on_lost else options

    # -- acquire and release -----------------------------------------------------------

    @runtime.must_be_awaited
    def acquire(
        self,
        *,
        timeout: float | Unset | None = UNSET,
        cancel: Cancel | None = None,
        **others: Unpack[NoKeywords],
    ) -> Lease:
        """Return a lease, or raise AcquireTimeout; timeout None waits for ever, 0 tries once.

        The timeout covers the wait in line; a store that does not answer may add up to one request
        timeout. `cancel` is a `threading` or `asyncio` event. When another thread or task sets it,
        the wait ends with NotAcquired and the claim leaves the line.
        """
        seconds = self.options.timeout if timeout is UNSET else checked_timeout(timeout)
        if cancel is not None:
            checked_cancel(cancel)
        if others:
            checked_keywords(others, accepted=("timeout", "cancel"), what="acquire()")
        attempt = Acquisition(self._client, self, timeout=seconds, cancel=cancel)
        try:
            answer = attempt.run()
            if isinstance(answer, Refused):
                raise self.timed_out(answer)  # noqa: TRY301 - a further frame slows down wakeups
            attempt.owes = False  # the caller has it now, as no interrupt strikes before the return
            return answer  # noqa: TRY300 - as above
        except BaseException:
            attempt.leave_behind()
            raise

    @runtime.must_be_awaited
    def try_acquire(self) -> Lease | None:
        """Return a lease, or None if another owner holds the lock; never joins the line."""
        attempt = Acquisition(self._client, self, timeout=0.0)
        try:
            answer = attempt.run()
            lease = None if isinstance(answer, Refused) else answer
            attempt.owes = False  # as in `acquire`
            return lease  # noqa: TRY300 - as above
        except BaseException:
            attempt.leave_behind()
            raise

    def release(self) -> None:
        """End the innermost lease that this thread or task took through this lock object."""
        context = runtime.context()
        with self._client.state:
            mine = [one for one in each(self._handles) if one.hold.context() is context]
        if not mine:
            raise NotOwner(
                f"{self.name!r} is not held through this object by the {runtime.OWNER} that "
                f"releases it; keep the lease that acquire() gives: another {runtime.OWNER} than "
                "the one that acquired it may call lease.release() too",
                name=self.name,
            )
        lease_on(mine[-1]).release()

    @runtime.must_be_awaited
    def locked(self) -> bool:
        """Whether a new caller would have to wait.

        As in asyncio and threading, a semaphore with enough permits left is not locked. The result
        may be out of date when this returns.
        """
        self._client.enter()
        deadline = self._client.request_deadline()
        seen = self._client.backend.inspect(self.name, deadline=deadline)
        return would_wait(seen, weight=self.weight, capacity=self.capacity)

    def keep(self, handle: Handle) -> None:
        """Record a handle, so that `release` can end it."""
        self._handles = added(self._handles, handle)

    def forget(self, handle: Handle) -> None:
        """Drop a handle that has ended."""
        with self._client.state:
            self._handles = without(self._handles, handle)

    def granted(self, attempt: Acquisition) -> Lease:
        """Run the attempt, and return its lease or raise AcquireTimeout."""
        answer = attempt.run()
        if isinstance(answer, Refused):
            raise self.timed_out(answer)
        return answer

    def timed_out(self, refused: Refused) -> AcquireTimeout:
        """Return the error for an acquire that ran out of time."""
        return acquire_timeout(self.name, refused.held, waited=refused.waited)

    # -- re-entry ----------------------------------------------------------------------

    def reentered(self, attempt: Acquisition) -> Lease | None:
        """Return another lease on the hold that this thread or task already has, if any."""
        if self.options.owner is not None:
            return None  # only the store records the holds of an explicit owner
        with self._client.state:
            # Check the hold and take the handle in one step, because another thread may be
            # releasing the last handle.
            hold = self._client.holds.of(attempt.context, self.name)
            if hold is None or not hold.has_handles():
                return None
            if hold.is_trusted(self._client.clock.now()):
                return attempt.lease_on(hold) if self._fits(hold) else None
        # This error reports the loss, and only once. So a caller that acquires again afterwards
        # gets a new hold.
        hold.lose("expired")
        self._client.remove(hold)
        raise hold.error(hint=UNRELEASED)

    def _fits(self, hold: Hold) -> bool:
        if not self.options.reentrant:
            raise WouldDeadlock(
                f"{self.name!r} is held by this very thread or task, and reentrant=False",
                name=self.name,
            )
        if hold.grant.claim.capacity != self.capacity:
            return False  # the store will refuse the claim, in an error that names both capacities
        warn_of_shared_owner(self.name)
        if hold.grant.claim.weight < self.weight:
            raise WouldDeadlock(
                f"{self.name!r} is held for reading by the one who asks to write; "
                "release the read lease first",
                name=self.name,
            )
        return True

    # -- `with` and decorator ----------------------------------------------------------

    def __enter__(self) -> Lease:
        attempt = Acquisition(self._client, self, timeout=self.options.timeout)
        try:
            lease = attempt.run()
            if isinstance(lease, Refused):
                raise self.timed_out(lease)  # noqa: TRY301 - as in `acquire`
            try:
                lease.enter_block(attempt.context)
            except LeaseLost:
                lease.release()  # raises LeaseLost too
                raise
            release_guard: ReleaseGuard | None = None
            if runtime.INTERRUPTED_ANYWHERE:
                release_guard = ReleaseGuard(
                    self._client, attempt.handles, entered=self._entered, block=lease
                )
            self._entered.push(lease)
            if release_guard is not None:
                runtime.keep_for_block(self, release_guard)
            attempt.owes = False  # from here on, the block ends the lease
            return lease  # noqa: TRY300 - as in `acquire`
        except BaseException:
            attempt.leave_behind()
            raise

    @runtime.leaves_block
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Look the method up on the class, because on the lease it would be bound as for a new
        # `with` statement.
        return Lease.__exit__(self._entered.pop(), kind, error, trace)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Decorate a function so that it runs only while it holds the lock."""
        refuse_other_flavour(function)

        @functools.wraps(function)
        def locked(*args: P.args, **kwargs: P.kwargs) -> R:
            with self:
                return function(*args, **kwargs)

        return locked

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} at {self._client.backend.location}>"


def _refuse_misfit(client: Client, options: LockOptions) -> None:
    """Raise if the store does not support the options."""
    capabilities = client.backend.capabilities
    checked_ttl(options.ttl, minimum=client.backend.min_ttl)
    if options.ttl != client.ttl and not client.life.has_own_ttl:
        raise ConfigurationError(
            f"ttl={options.ttl!r}: here one session carries all locks of a client, so the ttl "
            f"is the client's ({client.ttl!r} s); give it there (Locks(..., ttl=...)), or make "
            "a client of its own for this lock"
        )
    if options.owner is not None and not capabilities.explicit_owner:
        raise ConfigurationError("this backend has no explicit owners (owner=)")
    if options.lock_delay and not capabilities.lock_delay:
        raise ConfigurationError("this backend has no lock_delay")


def refuse_other_flavour(function: Callable[..., Any]) -> None:
    """Raise if a lock of this flavour cannot decorate the function."""
    if not callable(function):
        raise TypeError(
            f"a lock decorates a function, and {function!r} is none; write "
            "@locks.locked('name') or @locks.lock('name') above the function"
        )
    name = getattr(function, "__qualname__", repr(function))
    if (kind := generator_kind(function)) is not None:
        raise decorated_generator(name, kind)
    if not runtime.is_flavoured(function):
        raise ConfigurationError(
            f"{name} is {runtime.OTHER_FLAVOUR}, and this is the {runtime.FLAVOUR} flavour; "
            f"decorate it with a lock of {runtime.OTHER_CLIENT}"
        )


# A read-write lock: many readers or one writer, in order of arrival.


class _OfTwo(Lock):
    capacity = ALL
    made_by = ""

    def __repr__(self) -> str:
        where = self._client.backend.location
        return f"<{RWLock.__name__}.{self.made_by} {self.name!r} at {where}>"


class _ReadLock(_OfTwo):
    weight = 1
    made_by = "read"


class _WriteLock(_OfTwo):
    weight = ALL
    made_by = "write"


class RWLock(NotPicklable):
    """Many readers or one writer at a time; neither can starve the other.

    A writer may also read, because it re-enters its own hold. A reader that asks to write would
    wait for itself, so this raises WouldDeadlock.
    """

    _advice = "pass on its name, and make the lock there"

    def __init__(self, client: Client, name: str, options: LockOptions) -> None:
        self.name: str = checked_name(name)
        if not client.backend.capabilities.shared:
            raise ConfigurationError(
                "this backend has no shared holds: it offers lock(), not rwlock()"
            )
        if options.owner is not None:
            raise ConfigurationError("owner= belongs to lock(); a read-write lock has none")
        self._read = _ReadLock(client, name, options)
        self._write = _WriteLock(client, name, options)

    def read(self) -> Lock:
        """Return the lock that readers share.

        The token of a reader's lease only numbers the readers, and cannot fence.
        """
        return self._read

    def write(self) -> Lock:
        """Return the exclusive lock for writers."""
        return self._write

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"


# A semaphore: at most `capacity` permits are taken at a time, in order of arrival.


class Semaphore(Lock):
    """A semaphore: each acquire takes `permits` of the capacity; never re-entrant.

    All users of one name must pass the same capacity; a different one is refused while the name is
    in use.
    """

    def __init__(
        self, client: Client, name: str, options: LockOptions, *, capacity: int, permits: int
    ) -> None:
        self.capacity: int = checked_capacity(capacity)
        self.weight: int = checked_permits(permits, capacity=capacity)
        if not client.backend.capabilities.shared:
            raise ConfigurationError(
                "this backend has no shared holds: it offers lock(), not semaphore()"
            )
        if options.owner is not None:
            raise ConfigurationError("owner= belongs to lock(); a semaphore has none")
        super().__init__(client, name, options)

    def reentered(self, attempt: Acquisition) -> Lease | None:
        del attempt
        return None
