"""Acquire several names, all or none, always in the same order."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockfast.client._async.acquisition import AcquireGroup, AsyncAcquisition
from lockfast.client._async.handle import AsyncOpenBlocks, AsyncReleaseGuard
from lockfast.client._async.lease import lease_on
from lockfast.client._async.lock import AsyncLock
from lockfast.errors import (
    AcquireTimeout,
    BackendUnavailable,
    ConfigurationError,
    LockError,
    NotAcquired,
    NotOwner,
    OutcomeUnknown,
    WouldDeadlock,
)
from lockfast.options import UNSET, LockOptions, Unset, checked_timeout
from lockfast.runtime import aio as runtime
from lockfast.runtime.fork import NotPicklable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from lockfast.client._async.client import AsyncClient
    from lockfast.client._async.handle import AsyncHandle
    from lockfast.client._async.hold import AsyncHold
    from lockfast.client._async.lease import AsyncLease
    from lockfast.model import Grant


class Attempts(dict[str, AsyncAcquisition]):
    """The acquires by name, kept by the calling frames until the caller has the leases."""

    def leave_behind(self) -> None:
        """Let the background end the acquires whose leases do not reach the caller."""
        for one in self.values():
            one.leave_behind()


class _ManyBlock:
    """A block around all of the leases, with the thread or task that entered it."""

    __slots__ = ("entered_by", "stack")

    def __init__(self, stack: runtime.ExitStack, entered_by: weakref.ref[runtime.Context]) -> None:
        self.stack: runtime.ExitStack = stack
        self.entered_by: weakref.ref[runtime.Context] = entered_by


class AsyncAllOf(NotPicklable):
    """Holds all of its names, or none.

    The names are taken in byte order, whatever the caller's order, so two callers that hold nothing
    else cannot wait for each other.
    """

    _advice = "pass on the names, and make it there"

    def __init__(self, client: AsyncClient, names: tuple[str, ...], options: LockOptions) -> None:
        if not names:
            raise ConfigurationError("all() takes at least one name")
        if any(isinstance(one, list | tuple | set | frozenset) for one in names):
            raise TypeError("all() takes the names one by one: all('a', 'b'), or all(*names)")
        if len(set(names)) != len(names):
            raise ConfigurationError("all() takes each name once")
        if options.owner is not None:
            raise ConfigurationError("owner= belongs to lock(); all() has none")
        self.names = names
        self._client = client
        self._options = options
        self._locks = {name: AsyncLock(client, name, options) for name in names}
        self._order = sorted(names, key=str.encode)
        self._entered: AsyncOpenBlocks[_ManyBlock] = AsyncOpenBlocks(client)
        # In order of acquisition. The list has handles, not leases. A hold whose thread or task has
        # ended counts as abandoned, unless its lease is still referenced.
        self._taken: list[tuple[list[AsyncHandle], weakref.ref[runtime.Context]]] = []

    @runtime.must_be_awaited
    async def acquire(self, *, timeout: float | Unset | None = UNSET) -> tuple[AsyncLease, ...]:
        """Return the leases in the order of the given names; the timeout covers all names."""
        seconds = self._options.timeout if timeout is UNSET else checked_timeout(timeout)
        together, attempts = AcquireGroup(), Attempts()
        try:
            leases = await self._acquire(seconds, together, attempts)
            # the caller has the leases now, as no interrupt strikes before the return
            together.owes = False
            return leases  # noqa: TRY300 - as above
        except BaseException:
            attempts.leave_behind()
            raise

    async def _acquire(
        self, timeout: float | None, together: AcquireGroup, attempts: Attempts
    ) -> tuple[AsyncLease, ...]:
        clock = self._client.clock
        deadline = None if timeout is None else clock.now() + timeout
        self._refuse_deadlock()
        leases = await self._acquire_together(timeout, together, attempts)
        lost = AnyLost(leases)
        try:
            for name in self._order:
                if name not in leases:
                    left = None if deadline is None else max(0.0, deadline - clock.now())
                    attempts[name] = attempt = AsyncAcquisition(
                        self._client,
                        self._locks[name],
                        timeout=left,
                        cancel=lost,
                        together=together,
                    )
                    attempt.is_ended_only_by_loss = True
                    leases[name] = await self._next(attempt, lost)
            lost.check()
            self._keep([handle for one in attempts.values() for handle in one.handles])
        except BaseException as error:
            # Take all names or none, even if the acquire was cancelled midway.
            try:
                await runtime.shield(self._give_back(leases))
            except LockError as failure:
                error.add_note(f"lockfast: {failure}")  # the release continues in the background
            raise
        return tuple(leases[name] for name in self.names)

    async def release(self) -> None:
        """End the leases of the last `acquire` by this thread or task through this object.

        Every lease is released, even if the release of another lease fails. Raises NotOwner if
        there are no leases, and otherwise the error of a failed release. Leases for which the store
        did not answer may be released again.
        """
        context = runtime.context()
        with self._client.state:
            self._keep([])
            mine = [handles for handles, owner in self._taken if owner() is context]
        if not mine:
            raise NotOwner(
                f"{self!r} is not held through this object by the one who releases it; another "
                f"{runtime.OWNER} than the one that acquired it releases each of the leases",
                name=self._order[0],
            )
        left = [handle for handle in mine[-1] if not handle.is_released]
        release_guard = AsyncReleaseGuard(self._client, left)
        leases = {handle.hold.grant.claim.name: lease_on(handle) for handle in left}
        try:
            await runtime.shield(self._give_back(leases))
        except LockError:
            release_guard.fulfil()  # the remaining leases may be released again
            raise

    def _keep(self, handles: list[AsyncHandle]) -> None:
        """Record handles that were just taken, and forget handles that have ended."""
        with self._client.state:
            taken = [*self._taken, (handles, weakref.ref(runtime.context()))]
            # Use no generator here, because Python swallows an interrupt that strikes while a
            # generator is dropped.
            self._taken = [
                (some, owner) for some, owner in taken if [one for one in some if not one.is_ended]
            ]

    async def _next(self, attempt: AsyncAcquisition, lost: AnyLost) -> AsyncLease:
        try:
            return await self._locks[attempt.claim.name].granted(attempt)
        except NotAcquired:
            lost.check()  # the wait may have ended because of a loss
            raise

    async def _acquire_together(
        self, timeout: float | None, together: AcquireGroup, attempts: Attempts
    ) -> dict[str, AsyncLease]:
        """Return all leases if they could be granted in one step, otherwise none."""
        locks = [self._locks[name] for name in self._order]
        held = self._client.holds.names_of(runtime.context())
        if len(locks) == 1 or not held.isdisjoint(self.names):
            return {}
        for lock in locks:
            attempts[lock.name] = AsyncAcquisition(
                self._client, lock, timeout=timeout, together=together
            )
        holds = await _in_one_step(self._client, list(attempts.values()))
        return {
            hold.grant.claim.name: attempts[hold.grant.claim.name].lease_on(hold)
            for hold in holds or ()
        }

    @runtime.must_be_awaited
    async def try_acquire(self) -> tuple[AsyncLease, ...] | None:
        """Return all leases, or None if one of the names is held."""
        try:
            return await self.acquire(timeout=0)
        except AcquireTimeout:
            return None

    def _refuse_deadlock(self) -> None:
        # This thread or task already holds some of the names. Refuse if one of the missing names
        # sorts before one of these, because a cycle of waits could then arise.
        held = self._client.holds.names_of(runtime.context())
        missing = [name for name in self._order if name not in held]
        if missing and held:
            last = max(held, key=str.encode)
            if missing[0].encode() < last.encode():
                raise WouldDeadlock(
                    f"taking {missing[0]!r} while {last!r} is held could wait for somebody who "
                    "waits for us: take all names in one all(), or hold only names that sort "
                    "before the new ones",
                    name=missing[0],
                )

    async def _give_back(self, leases: dict[str, AsyncLease]) -> None:
        async with runtime.ExitStack() as stack:
            for name in self._order:
                if name in leases:
                    stack.push_async_callback(leases[name].release)

    async def __aenter__(self) -> tuple[AsyncLease, ...]:
        together, attempts, context = AcquireGroup(), Attempts(), runtime.context()
        try:
            leases = await self._acquire(self._options.timeout, together, attempts)
            async with runtime.ExitStack() as stack:
                # Each lease is released whatever happens; entering a lease that has been lost
                # raises.
                for lease in leases:
                    stack.push_async_exit(lease)
                for lease in leases:
                    lease.enter_block(context)
                block = _ManyBlock(stack.pop_all(), weakref.ref(context))
            handles = [handle for one in attempts.values() for handle in one.handles]
            release_guard = AsyncReleaseGuard(
                self._client, handles, entered=self._entered, block=block
            )
            self._entered.push(block)
            runtime.keep_for_block(self, release_guard)
            together.owes = False  # from here on, the block ends the leases
            return leases  # noqa: TRY300 - as in `acquire`
        except BaseException:
            attempts.leave_behind()
            raise

    @runtime.leaves_block
    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._entered.pop().stack.__aexit__(kind, error, trace)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {', '.join(map(repr, self.names))}>"


@dataclass(frozen=True, slots=True)
class AnyLost:
    """Cancels the wait for a further name when a lease that was already acquired is lost."""

    leases: Mapping[str, AsyncLease]

    def is_set(self) -> bool:
        """Return whether one of the leases was lost."""
        return any(lease.lost.is_set() for lease in self.leases.values())

    def check(self) -> None:
        """Raise LeaseLost if one of the leases was lost."""
        for lease in self.leases.values():
            lease.check()


async def _in_one_step(
    client: AsyncClient, attempts: Sequence[AsyncAcquisition]
) -> list[AsyncHold] | None:
    """Return a hold on each name, granted in one step; None if they must be acquired one by one.

    As with a single acquire, if no holds are returned, each claim no longer holds its name, or its
    withdrawal continues in the background.
    """
    try:
        for one in attempts:
            client.register_acquire(one)
        sent_at = client.clock.now()
        grants = await _granted_together(client, attempts, sent_at)
        return None if grants is None else await _believed(attempts, grants, sent_at)
    finally:
        for one in attempts:
            client.unregister_acquire(one)


async def _granted_together(
    client: AsyncClient, attempts: Sequence[AsyncAcquisition], sent_at: float
) -> Sequence[Grant] | None:
    claims = [one.claim for one in attempts]
    deadline = sent_at + client.request_timeout
    _oblige(attempts, owes=True)
    try:
        grants = await client.backend.try_acquire_all(claims, deadline=deadline)
    except OutcomeUnknown as error:
        error.about(claims[0].name)
        if await runtime.shield(_give_up(attempts)):
            return None
        raise
    except (BackendUnavailable, ConfigurationError) as error:
        _oblige(attempts, owes=False)  # the store did nothing
        error.about(claims[0].name)
        raise
    except BaseException:
        # However the attempt ends, by a cancellation, an interrupt or an inconclusive reply, it
        # must leave nothing behind in the store.
        await runtime.shield(_give_up(attempts))
        raise
    if grants is None:
        _oblige(attempts, owes=False)
    return grants


def _oblige(attempts: Sequence[AsyncAcquisition], *, owes: bool) -> None:
    for one in attempts:
        one.owes = owes


async def _believed(
    attempts: Sequence[AsyncAcquisition],
    grants: Sequence[Grant],
    sent_at: float,
) -> list[AsyncHold] | None:
    pairs = zip(attempts, grants, strict=True)
    try:
        holds = [await one.accept_grant(grant, sent_at) for one, grant in pairs]
    except BaseException:
        # Here, too, the attempt must leave nothing behind, even if the client was closed meanwhile.
        await runtime.shield(_give_up(attempts))
        raise
    believed = [one for one in holds if one is not None]
    if len(believed) == len(attempts):
        return believed
    # The reply came so late that some of the grants can no longer be trusted.
    await runtime.shield(_give_up(attempts))
    return None


async def _give_up(attempts: Sequence[AsyncAcquisition]) -> bool:
    """Withdraw all claims; return false if the store did not answer."""
    are_withdrawn = [await one.withdraw_unanswered() for one in attempts]
    return all(are_withdrawn)
