"""A lock by name: cheap, shareable, a context manager and a decorator."""

from __future__ import annotations

import functools
import weakref
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, Unpack

from lockfast._async.acquiring import AsyncAcquisition, Refused
from lockfast._async.handle import AsyncDuty
from lockfast._async.lease import AsyncLease, lease_on
from lockfast._async.open_blocks import AsyncOpenBlocks
from lockfast._async.parents import warn_of_braces, warn_of_tasks
from lockfast.core.admission import would_wait
from lockfast.core.contention import not_acquired
from lockfast.core.decorating import decorated_generator, generator_kind
from lockfast.core.mostly_one import added, each, without
from lockfast.core.naming import checked_name
from lockfast.core.staying import StaysHere
from lockfast.errors import (
    AcquireTimeout,
    ConfigurationError,
    LeaseLost,
    NotOwner,
    WouldDeadlock,
)
from lockfast.options import (
    UNSET,
    LockOptions,
    NoKeywords,
    Unset,
    checked_cancel,
    checked_keywords,
    checked_timeout,
    checked_ttl,
)
from lockfast.runtime import aio as runtime

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from types import TracebackType

    from lockfast._async.acquiring import Cancel
    from lockfast._async.client import AsyncClient
    from lockfast._async.handle import AsyncHandle
    from lockfast._async.hold import AsyncHold
    from lockfast.core.mostly_one import MostlyOne

P = ParamSpec("P")
R = TypeVar("R")

UNRELEASED = (
    "this thread or task took it and has not released it; to keep others out for a while after "
    "a piece of work, release it and say min_hold="
)


class AsyncLock(StaysHere):
    """At most one holder at a time, as far as the backend can promise.

    One object may be shared by threads and tasks. The same thread or task that asks again
    while it holds gets a further handle on the same hold, without asking the store.
    """

    weight = 1
    capacity = 1
    _goes_instead = "pass on its name, and make the lock there"

    def __init__(self, client: AsyncClient, name: str, options: LockOptions) -> None:
        self.name: str = checked_name(name)
        if "{" in name:
            warn_of_braces(client, name)
        self.options = options
        self._client = client
        self.ref: weakref.ref[AsyncLock] = weakref.ref(self)
        """How its holds and handles know it; made once, as it is asked for at every acquire."""
        # In the order of acquiring: the caller of `acquire` may not store the lease, but mean to
        # end it by `release`.
        self._handles: MostlyOne[AsyncHandle] = None
        self._entered: AsyncOpenBlocks[AsyncLease] = AsyncOpenBlocks(client)
        if options is not client.fitting:
            _refuse_misfit(client, options)
            # Most often the same again; not with a hook, which would live as long as the client.
            client.fitting = None if options.on_lost else options

    # -- the verbs ---------------------------------------------------------------------

    @runtime.must_be_awaited
    async def acquire(
        self,
        *,
        timeout: float | Unset | None = UNSET,
        cancel: Cancel | None = None,
        **others: Unpack[NoKeywords],
    ) -> AsyncLease:
        """Return a lease, or raise AcquireTimeout: None waits for ever, 0 tries once.

        The time counts for waiting in line; a store that does not answer may take one
        request timeout more. `cancel` is an event, of `threading` or `asyncio`: once another
        thread or task sets it, the wait ends with NotAcquired, and the place in line is given up.
        """
        seconds = self.options.timeout if timeout is UNSET else checked_timeout(timeout)
        checked_cancel(cancel)
        if others:
            checked_keywords(others, accepted=("timeout", "cancel"), what="acquire()")
        attempt = AsyncAcquisition(self._client, self, timeout=seconds, cancel=cancel)
        try:
            answer = await attempt.run()
            if isinstance(answer, Refused):
                raise self.timed_out(answer)  # noqa: TRY301 - a task goes through each frame
            attempt.owes = False  # the caller has it: nothing strikes between this and the return
            return answer  # noqa: TRY300 - as above
        except BaseException:
            attempt.leave_behind()
            raise

    @runtime.must_be_awaited
    async def try_acquire(self) -> AsyncLease | None:
        """Return a lease, or None when somebody else holds it; joins no line."""
        attempt = AsyncAcquisition(self._client, self, timeout=0.0)
        try:
            answer = await attempt.run()
            lease = None if isinstance(answer, Refused) else answer
            attempt.owes = False  # as above
            return lease  # noqa: TRY300 - as above
        except BaseException:
            attempt.leave_behind()
            raise

    async def release(self) -> None:
        """End the innermost lease that this thread or task has of this lock object."""
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
        await lease_on(mine[-1]).release()

    @runtime.must_be_awaited
    async def locked(self) -> bool:
        """Whether an acquire now would have to wait, by one who holds nothing of it.

        As of asyncio's and threading's: a semaphore with enough permits left is not locked.
        The answer may be old when it arrives.
        """
        self._client.enter()
        deadline = self._client.request_deadline()
        seen = await self._client.backend.inspect(self.name, deadline=deadline)
        return would_wait(seen, weight=self.weight, capacity=self.capacity)

    def keep(self, handle: AsyncHandle) -> None:
        """Know a handle, so that `release` can end it."""
        self._handles = added(self._handles, handle)

    def forget(self, handle: AsyncHandle) -> None:
        """Drop a handle that was ended."""
        with self._client.state:
            self._handles = without(self._handles, handle)

    async def granted(self, attempt: AsyncAcquisition) -> AsyncLease:
        """Return the lease of an acquire of this lock, or raise AcquireTimeout."""
        answer = await attempt.run()
        if isinstance(answer, Refused):
            raise self.timed_out(answer)
        return answer

    def timed_out(self, refused: Refused) -> AcquireTimeout:
        """Return the error of an acquire whose time was up."""
        return AcquireTimeout(
            not_acquired(self.name, refused.held, waited=refused.waited),
            name=self.name,
            waited=refused.waited,
            holders=refused.held.holders,
            place=refused.held.place,
            closing=refused.held.closing,
        )

    # -- re-entry ----------------------------------------------------------------------

    def reentered(self, attempt: AsyncAcquisition) -> AsyncLease | None:
        """Return a further handle on what this thread or task holds already."""
        if self.options.owner is not None:
            return None  # the store knows what an explicit owner holds
        with self._client.state:
            # In one step with taking the handle: another thread may be releasing the last.
            hold = self._client.holds.of(attempt.context, self.name)
            if hold is None or not hold.has_handles():
                return None
            if hold.is_trusted(self._client.clock.now()):
                return attempt.lease_on(hold) if self._fits(hold) else None
        # Told once: whoever then asks again knows that it enters anew.
        hold.lose("expired")
        self._client.remove(hold)
        raise hold.error(hint=UNRELEASED)

    def _fits(self, hold: AsyncHold) -> bool:
        if not self.options.reentrant:
            raise WouldDeadlock(
                f"{self.name!r} is held by this very thread or task, and reentrant=False",
                name=self.name,
            )
        if hold.grant.claim.capacity != self.capacity:
            return False  # the store refuses it, naming both
        warn_of_tasks(self.name)
        if hold.grant.claim.weight < self.weight:
            raise WouldDeadlock(
                f"{self.name!r} is held for reading by the one who asks to write; "
                "release the read lease first",
                name=self.name,
            )
        return True

    # -- `with` and decorator ----------------------------------------------------------

    async def __aenter__(self) -> AsyncLease:
        attempt = AsyncAcquisition(self._client, self, timeout=self.options.timeout)
        try:
            lease = await attempt.run()
            if isinstance(lease, Refused):
                raise self.timed_out(lease)  # noqa: TRY301 - as in `acquire`
            try:
                lease.enter_block(attempt.context)
            except LeaseLost:
                await lease.release()  # which says so too
                raise
            duty: AsyncDuty | None = None
            if runtime.STRUCK_ANYWHERE:
                duty = AsyncDuty(self._client, attempt.handles, entered=self._entered, block=lease)
            self._entered.push(lease)
            if duty is not None:
                runtime.keep_for_block(self, duty)
            attempt.owes = False  # from here on the block has it
            return lease  # noqa: TRY300 - as in `acquire`
        except BaseException:
            attempt.leave_behind()
            raise

    @runtime.leaves_block
    def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> Coroutine[Any, Any, None]:
        # By its class: asked of the lease it would be bound anew, for a statement of its own.
        return AsyncLease.__aexit__(self._entered.pop(), kind, error, trace)

    def __call__(self, function: Callable[P, Awaitable[R]]) -> Callable[P, Coroutine[Any, Any, R]]:
        """Decorate a function that runs only while it holds the lock."""
        refuse_other_flavour(function)

        @functools.wraps(function)
        async def locked(*args: P.args, **kwargs: P.kwargs) -> R:
            async with self:
                return await function(*args, **kwargs)

        return locked

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} at {self._client.backend.location}>"


def _refuse_misfit(client: AsyncClient, options: LockOptions) -> None:
    """Raise if the store cannot keep what the options promise."""
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
    """Raise if the function cannot be decorated by a lock of this flavour."""
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
