"""Leases: what the caller holds, for how long it is trusted, and the signal of its loss."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Self

from lockfast.client._async.handle import AsyncHandle, AsyncReleaseGuard, added, without
from lockfast.core.lease_text import detached_text, no_sequencers, sequencer_of, without_client
from lockfast.core.renewal import GIVEN_UP, OVER
from lockfast.errors import (
    LeaseLost,
    LockError,
    NotOwner,
    OutcomeUnknown,
    TokenUnavailable,
)
from lockfast.events import Detached, Released
from lockfast.model import Renewal
from lockfast.runtime import aio as runtime
from lockfast.runtime.fork import NotPicklable

if TYPE_CHECKING:
    from types import TracebackType

    from lockfast.events import Event
    from lockfast.model import RevisionGuard


class AsyncLease(NotPicklable):
    """A lock that the caller holds for a limited time.

    A lease cannot stop its holder. A process that was frozen until after the end of its lease runs
    on until it checks the lease. So pass `token` with everything that you write, and let the
    receiver refuse smaller tokens.
    """

    __slots__ = ("__weakref__", "_block", "_handle", "_hold")
    _advice = "pass on its token, or the lease itself: lease.detach() and locks.adopt(text)"

    def __init__(self, handle: AsyncHandle) -> None:
        self._handle = handle
        self._hold = handle.hold
        self._block: runtime.Block | None = None
        handle.lease = weakref.ref(self)

    @property
    def entered_by(self) -> weakref.ref[runtime.Context]:
        """The thread or task that acquired the lease."""
        return self._hold.context

    @property
    def name(self) -> str:
        """The name that is held."""
        return self._hold.grant.claim.name

    @property
    def owner(self) -> str:
        """A description of the holder, for people to read."""
        return self._hold.client.owner_text

    @property
    def ttl(self) -> float:
        """How long the store keeps the grant without renewal, in seconds."""
        return self._hold.grant.ttl

    @property
    def exclusive(self) -> bool:
        """Whether nobody else can hold the name at the same time; only then can the token fence."""
        return self._hold.grant.claim.exclusive

    @property
    def token(self) -> int:
        """The fencing token, which is larger than that of every earlier holder of this name.

        Tokens order the exclusive leases of one name in one store, and nothing else.
        """
        token = self._hold.grant.token
        if token is None:
            raise TokenUnavailable(
                "this backend has no fencing tokens; protect the resource by one that has (etcd, "
                "mysql, postgresql, redis, redlock, sqlite, zookeeper)",
                name=self.name,
            )
        return token

    @property
    def sequencer(self) -> str:
        """A short text with which another service can check whether this lease still holds.

        It contains the name, the mode, the token and the id of the hold. Any client of the store
        can check it with `locks.is_current(text)`, whatever address that client uses for the store.
        The text is not a secret, and stays the same as long as the lease lasts.
        """
        if not self._hold.client.backend.capabilities.sequencers:
            raise no_sequencers(self.name)
        return sequencer_of(self._hold.grant, self.token).to_text()

    @property
    def is_trusted(self) -> bool:
        """Whether the holder may still act, by the local clock and without asking the store."""
        return not self._handle.is_released and self._hold.is_trusted(self._hold.client.clock.now())

    @property
    def is_at_risk(self) -> bool:
        """Whether a renewal is overdue or unanswered, while the lease is still trusted."""
        return not self._handle.is_released and self._hold.is_at_risk(self._hold.client.clock.now())

    @property
    def remaining(self) -> float:
        """For how many more seconds the lease is trusted if it is not renewed again."""
        if not self.is_trusted:
            return 0.0
        return max(0.0, self._hold.until - self._hold.client.clock.now())

    @property
    def lost(self) -> runtime.Signal:
        """The signal that the lease was lost: is_set(), wait(timeout), reason."""
        return self._hold.lost

    def check(self) -> None:
        """Raise LeaseLost if the holder may no longer act; no I/O.

        The lease may end right after this check. So if a late write would do harm, the write has to
        include the token.
        """
        handle, hold = self._handle, self._hold
        hold.client.watchdog.notice()
        if handle.is_released or hold.hold_state in GIVEN_UP:
            raise NotOwner(f"the lease on {self.name!r} was {handle.ended_by}", name=self.name)
        if not hold.is_trusted(hold.client.clock.now()):
            hold.lose("expired")
            raise hold.error()

    def guard(self) -> RevisionGuard:
        """Return a condition for your own transaction, so that it commits only under this lease.

        On etcd, the transaction must require that `key` still has this `create_revision`. Once the
        lease has ended, etcd refuses the transaction, whichever client sends it and however late it
        arrives. This does no I/O; other backends raise ConfigurationError.
        """
        self.check()
        return self._hold.client.backend.guard(self._hold.grant)

    async def renew(self) -> None:
        """Reset the lease to a full ttl now, as the watchdog does in the background."""
        self.check()
        hold, client = self._hold, self._hold.client
        sent_at = client.clock.now()
        deadline = min(sent_at + client.request_timeout, hold.until)
        [outcome] = await client.backend.renew([hold.grant], deadline=deadline)
        client.watchdog.settle(hold, outcome, sent_at=sent_at)
        self.check()
        if hold.unanswered:
            raise self._unanswered("renewal")

    async def release(self) -> None:
        """Release this lease; if it is the last lease on the hold, the lock becomes free.

        Raises NotOwner if this lease was released before, and LeaseLost if the hold had already
        ended. After any other error, the release may be tried again.
        """
        handle, hold, client = self._handle, self._hold, self._hold.client
        with client.state:
            if handle.is_released:
                raise NotOwner(
                    f"the lease on {self.name!r} was {handle.ended_by} before", name=self.name
                )
            release_guard = (
                AsyncReleaseGuard(client, (handle,)) if runtime.INTERRUPTED_ANYWHERE else None
            )
            handle.is_released = True
            is_last = not hold.has_handles(excluding=handle)
            if not is_last:
                hold.remove(handle)
                handle.end()
        if not is_last:
            self._leave_to_others()
            return
        try:
            await runtime.shield(client.end(hold))
        except LeaseLost:
            handle.end()
            raise
        except LockError:
            # The release was not confirmed. The release continues in the background, and the caller
            # may repeat it.
            if release_guard is not None:
                release_guard.fulfil()
            handle.is_released = False
            raise
        except BaseException:
            # The release was interrupted. As above, the release continues and may be repeated,
            # unless it was complete before a cancellation could strike.
            if hold.hold_state is OVER:
                handle.end()
            else:
                handle.is_released = False
            raise
        handle.end()

    def _leave_to_others(self) -> None:
        """Raise if the hold has been lost; otherwise leave the hold to its other handles."""
        hold, client = self._hold, self._hold.client
        client.watchdog.notice()
        if not hold.is_trusted(client.clock.now()):
            hold.lose("expired")
        # A hold that is no longer trusted need not be lost. Another thread may have released the
        # last handle meanwhile.
        if hold.lost_by is not None:
            raise hold.error()

    async def detach(self) -> str:
        """End the lease here, and return a text with which `locks.adopt` can take it over anywhere.

        Nothing renews the lease until it is adopted. So it must be adopted within its ttl, which
        starts again now. Anyone who has the text can take over the lease.
        """
        self.check()
        handle, hold, client = self._handle, self._hold, self._hold.client
        if hold.has_handles(excluding=handle):
            raise NotOwner(
                f"{self.name!r} was entered more than once; release the other leases before this "
                "one is handed over",
                name=self.name,
            )
        text = detached_text(hold.grant)
        sent_at = client.clock.now()
        deadline = min(sent_at + client.request_timeout, hold.until)
        outcome = await client.backend.hand_over(without_client(hold.grant), deadline=deadline)
        if outcome is not Renewal.RENEWED:
            client.watchdog.settle(hold, outcome, sent_at=sent_at)
            self.check()
            raise self._unanswered("detach")
        self.give_up("handed over", reported_as=Detached)
        return text

    def give_up(self, ended_by: str, *, reported_as: type[Event] = Released) -> None:
        """End the lease here without a request, because it has already ended in the store."""
        # Keep this order. Until the handle is marked as released, a release can still end it.
        # Afterwards nothing can end it, so renewal of the hold must have stopped by then.
        handle, hold = self._handle, self._hold
        hold.client.remove(hold)
        handle.is_released, handle.ended_by = True, ended_by
        hold.end(OVER, hold.client.clock.now(), reported_as=reported_as)
        handle.end()

    def leave_to_ttl(self) -> None:
        """Leave the lease to its ttl: nothing renews it, and no handle releases it."""
        self._hold.leave_to_ttl()

    def beyond_its_block(self) -> tuple[AsyncLease, AsyncReleaseGuard]:
        """Return a lease that no `with` statement ends, and a guard in case nothing else ends it.

        If a block will release this lease, the result is a further lease on the same hold, and the
        name is free when both leases have been released. Otherwise the result is this lease.
        """
        hold, client = self._hold, self._hold.client
        with client.state:
            self.check()
            if self._block is None:
                return self, AsyncReleaseGuard(client, (self._handle,))
            handle = AsyncHandle(hold, self._handle.lock)
            release_guard = AsyncReleaseGuard(client, (handle,))
            hold.add(handle)
        return AsyncLease(handle), release_guard

    def _unanswered(self, what: str) -> OutcomeUnknown:
        return OutcomeUnknown(
            f"the {what} of {self.name!r} was not answered; it is trusted for "
            f"{self.remaining:.1f} s more",
            name=self.name,
            claim=self._hold.grant.claim.id,
        )

    async def __aenter__(self) -> Self:
        release_guard = AsyncReleaseGuard(self._hold.client, (self._handle,))
        self.check()
        self.enter_block(runtime.context())
        runtime.keep_for_block(self, release_guard)
        return self

    def enter_block(self, context: runtime.Context) -> None:
        """Attach the lease to a block of this thread or task; in asyncio, a loss cancels the task.

        Raises LeaseLost if the loss was already reported, because no second report would follow.
        """
        hold = self._hold
        with hold.client.state:
            if hold.lost_by is None:
                self._block = runtime.Block(context)
                hold.blocks = added(hold.blocks, self._block)
                return
        raise hold.error()

    @runtime.leaves_block
    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        hold, block = self._hold, self._block
        was_interrupted = False
        if block is not None:
            with hold.client.state:
                was_interrupted = block.leave(error)
                hold.blocks = without(hold.blocks, block)
                self._block = None
        failure: LockError | None = hold.error() if was_interrupted else None
        try:
            # A forked child holds nothing, so there is nothing to release and nobody to notify.
            if not self._handle.is_released and hold.lost_by != "forked":
                await self.release()
        except LockError as caught:
            failure = caught
        finally:
            if block is not None:
                block.finish()
        if failure is None or isinstance(error, LeaseLost):
            return
        if error is None or was_interrupted:
            raise failure from error
        # The body's own exception wins; the loss is added to it as a note.
        error.add_note(f"lockfast: {failure}")

    def __repr__(self) -> str:
        state = f"trusted for {self.remaining:.1f} s" if self.is_trusted else "over"
        if self._hold.lost_by is not None:
            state = f"lost: {self._hold.lost_by}"
        return f"<{type(self).__name__} {self.name!r} token={self._hold.grant.token} {state}>"


def lease_on(handle: AsyncHandle) -> AsyncLease:
    """Return the lease that the caller has, or a new lease if the caller has dropped it."""
    lease = None if handle.lease is None else handle.lease()
    return AsyncLease(handle) if lease is None else lease
