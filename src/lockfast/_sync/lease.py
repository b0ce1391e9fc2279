# Generated from src/lockfast/_async/lease.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""What the caller holds: a grant, how long it is trusted, and the signal of its loss."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Self

from lockfast._sync.handle import Duty, Handle
from lockfast.core.handing_over import nobodys, to_text
from lockfast.core.holding import GIVEN_UP, OVER
from lockfast.core.mostly_one import added, without
from lockfast.core.sequencing import no_sequencers, sequencer_of
from lockfast.core.staying import StaysHere
from lockfast.errors import (
    LeaseLost,
    LockError,
    NotOwner,
    OutcomeUnknown,
    TokenUnavailable,
)
from lockfast.events import Detached, Released
from lockfast.model import Renewal
from lockfast.runtime import threads as runtime

if TYPE_CHECKING:
    from types import TracebackType

    from lockfast.events import Event
    from lockfast.model import RevisionGuard


class Lease(StaysHere):
    """A lock that is ours for now.

    It is a promise about time, not about the world: a process that was frozen past the
    lease's end runs on until it looks. Pass `token` to whatever you write to, and let it
    refuse smaller ones.
    """

    __slots__ = ("__weakref__", "_block", "_handle", "_hold")
    _goes_instead = "pass on its token, or the lease itself: lease.detach() and locks.adopt(text)"

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._hold = handle.hold
        self._block: runtime.Block | None = None
        handle.lease = weakref.ref(self)

    @property
    def whose(self) -> weakref.ref[runtime.Context]:
        """The thread or task that acquired it."""
        return self._hold.context

    @property
    def name(self) -> str:
        """The name that is held."""
        return self._hold.grant.claim.name

    @property
    def owner(self) -> str:
        """Who holds it, for people."""
        return self._hold.client.owner_text

    @property
    def ttl(self) -> float:
        """How long the store keeps the grant without renewal, in seconds."""
        return self._hold.grant.ttl

    @property
    def exclusive(self) -> bool:
        """Whether nobody else is admitted beside us: only then does the token fence."""
        return self._hold.grant.claim.exclusive

    @property
    def token(self) -> int:
        """The fencing token: larger than that of every earlier holder of this name.

        It orders exclusive leases of one name in one store, and nothing else.
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
        """A short text by which another service can ask whether this lease still holds.

        Name, mode, token and which hold it is: `locks.is_current(text)` checks it, by whichever
        address it knows the store. It is no secret, and stays the same for as long as the lease
        lasts.
        """
        if not self._hold.client.backend.capabilities.sequencers:
            raise no_sequencers(self.name)
        return sequencer_of(self._hold.grant, self.token).to_text()

    @property
    def is_trusted(self) -> bool:
        """Whether the holder may still act; by the local clock, without asking the store."""
        return not self._handle.is_released and self._hold.is_trusted(self._hold.client.clock.now())

    @property
    def is_at_risk(self) -> bool:
        """Whether a renewal is overdue or unanswered, while the lease is still trusted."""
        return not self._handle.is_released and self._hold.is_at_risk(self._hold.client.clock.now())

    @property
    def remaining(self) -> float:
        """For how many seconds the lease is trusted if it is not renewed again."""
        if not self.is_trusted:
            return 0.0
        return max(0.0, self._hold.until - self._hold.client.clock.now())

    @property
    def lost(self) -> runtime.Signal:
        """The signal that the lease was lost: is_set(), wait(timeout), reason."""
        return self._hold.lost

    def check(self) -> None:
        """Raise LeaseLost if the lease may no longer be acted upon; no I/O.

        It says nothing about the moment after: a write that must not come late carries
        the token.
        """
        handle, hold = self._handle, self._hold
        hold.client.watchdog.notice()
        if handle.is_released or hold.holding in GIVEN_UP:
            raise NotOwner(f"the lease on {self.name!r} was {handle.ended_by}", name=self.name)
        if not hold.is_trusted(hold.client.clock.now()):
            hold.lose("expired")
            raise hold.error()

    def guard(self) -> RevisionGuard:
        """Return what a transaction of your own compares, to be done only under this lease.

        On etcd: that `key` still has this `create_revision`. Whatever etcd client sends it, the
        transaction is refused once the lease is over, however late it arrives. No I/O; other
        backends raise ConfigurationError.
        """
        self.check()
        return self._hold.client.backend.guard(self._hold.grant)

    def renew(self) -> None:
        """Reset the lease to a full ttl now; the watchdog does so by itself."""
        self.check()
        hold, client = self._hold, self._hold.client
        sent_at = client.clock.now()
        deadline = min(sent_at + client.request_timeout, hold.until)
        [outcome] = client.backend.renew([hold.grant], deadline=deadline)
        client.watchdog.settle(hold, outcome, sent_at=sent_at)
        self.check()
        if hold.unanswered:
            raise self._unanswered("renewal")

    def release(self) -> None:
        """Give this handle back; with the last one the lock is free.

        Raises NotOwner the second time, and LeaseLost if the lease ended before. After
        any other error it may be tried again.
        """
        handle, hold, client = self._handle, self._hold, self._hold.client
        with client.state:
            if handle.is_released:
                raise NotOwner(
                    f"the lease on {self.name!r} was {handle.ended_by} before", name=self.name
                )
            duty = Duty(client, (handle,)) if runtime.STRUCK_ANYWHERE else None
            handle.is_released = True
            is_last = not hold.has_handles(beside=handle)
            if not is_last:
                hold.remove(handle)
                handle.end()
        if not is_last:
            self._leave_to_others()
            return
        try:
            runtime.shield(client.end(hold))
        except LeaseLost:
            handle.end()
            raise
        except LockError:
            # Not answered. It goes on in the background, and may be repeated by the caller.
            if duty is not None:
                duty.fulfil()
            handle.is_released = False
            raise
        except BaseException:
            # Interrupted: as above, unless it was done before a cancellation could strike.
            if hold.holding is OVER:
                handle.end()
            else:
                handle.is_released = False
            raise
        handle.end()

    def _leave_to_others(self) -> None:
        """Raise if what others have handles on, and one was just ended of, has been lost."""
        hold, client = self._hold, self._hold.client
        client.watchdog.notice()
        if not hold.is_trusted(client.clock.now()):
            hold.lose("expired")
        # Not merely untrusted: another thread may have released the last handle meanwhile.
        if hold.lost_by is not None:
            raise hold.error()

    def detach(self) -> str:
        """Hand the lease on: return a text by which `locks.adopt` has it, anywhere.

        Here it is over, and nothing renews it until it is adopted: that has to happen within
        its ttl, which begins anew now. Whoever has the text has the lease.
        """
        self.check()
        handle, hold, client = self._handle, self._hold, self._hold.client
        if hold.has_handles(beside=handle):
            raise NotOwner(
                f"{self.name!r} was entered more than once; release the other leases before this "
                "one is handed over",
                name=self.name,
            )
        text = to_text(hold.grant)
        sent_at = client.clock.now()
        deadline = min(sent_at + client.request_timeout, hold.until)
        outcome = client.backend.hand_over(nobodys(hold.grant), deadline=deadline)
        if outcome is not Renewal.RENEWED:
            client.watchdog.settle(hold, outcome, sent_at=sent_at)
            self.check()
            raise self._unanswered("detach")
        self.give_up("handed over", told_as=Detached)
        return text

    def give_up(self, ended_by: str, *, told_as: type[Event] = Released) -> None:
        """End it here without asking the store, which knows already that it is over."""
        # In this order: until the handle counts as released it is ours, and a release ends it;
        # from then on nobody can, so it must not be renewed any more.
        handle, hold = self._handle, self._hold
        hold.client.remove(hold)
        handle.is_released, handle.ended_by = True, ended_by
        hold.end(OVER, hold.client.clock.now(), told_as=told_as)
        handle.end()

    def run_out(self) -> None:
        """Leave it to its ttl: it is neither renewed nor released, by whatever handle."""
        self._hold.run_out()

    def beyond_its_block(self) -> tuple[Lease, Duty]:
        """Return a lease that no `with` statement ends, and what ends it should nobody do so.

        Of one that a block will release it is a further lease on the same hold, so that the name
        is free when both have been released; else it is this one.
        """
        hold, client = self._hold, self._hold.client
        with client.state:
            self.check()
            if self._block is None:
                return self, Duty(client, (self._handle,))
            handle = Handle(hold, self._handle.lock)
            duty = Duty(client, (handle,))
            hold.add(handle)
        return Lease(handle), duty

    def _unanswered(self, what: str) -> OutcomeUnknown:
        return OutcomeUnknown(
            f"the {what} of {self.name!r} was not answered; it is trusted for "
            f"{self.remaining:.1f} s more",
            name=self.name,
            claim=self._hold.grant.claim.id,
        )

    def __enter__(self) -> Self:
        duty = Duty(self._hold.client, (self._handle,))
        self.check()
        self.enter_block(runtime.context())
        runtime.keep_for_block(self, duty)
        return self

    def enter_block(self, context: runtime.Context) -> None:
        """Be the lease of a block of the current thread or task: interrupted when it is lost.

        Raises LeaseLost if that has been told already: nobody would tell it again.
        """
        hold = self._hold
        with hold.client.state:
            if hold.lost_by is None:
                self._block = runtime.Block(context)
                hold.blocks = added(hold.blocks, self._block)
                return
        raise hold.error()

    @runtime.leaves_block
    def __exit__(
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
            # A forked child holds nothing: there is nothing to leave and nobody to tell.
            if not self._handle.is_released and hold.lost_by != "forked":
                self.release()
        except LockError as caught:
            failure = caught
        finally:
            if block is not None:
                block.finish()
        if failure is None or isinstance(error, LeaseLost):
            return
        if error is None or was_interrupted:
            raise failure from error
        # The body's own exception wins; the loss goes along with it.
        error.add_note(f"lockfast: {failure}")

    def __repr__(self) -> str:
        state = f"trusted for {self.remaining:.1f} s" if self.is_trusted else "over"
        if self._hold.lost_by is not None:
            state = f"lost: {self._hold.lost_by}"
        return f"<{type(self).__name__} {self.name!r} token={self._hold.grant.token} {state}>"


def lease_on(handle: Handle) -> Lease:
    """Return the caller's lease, or another if the caller has dropped it."""
    lease = None if handle.lease is None else handle.lease()
    return Lease(handle) if lease is None else lease
