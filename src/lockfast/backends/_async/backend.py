"""The port to one store: the methods that every backend implements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from lockfast.errors import ConfigurationError
from lockfast.model import Crowd

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from lockfast.model import (
        Capabilities,
        Claim,
        Finding,
        Grant,
        Held,
        Holder,
        Inspection,
        Proven,
        Renewal,
        RevisionGuard,
        Schema,
    )


class AsyncBackend(Protocol):
    """The methods of a store; each method gives up at `deadline`, a time on the client's clock.

    A method that gives up or fails raises BackendUnavailable if nothing was done, and
    OutcomeUnknown if a request was sent and not answered. A driver's error never reaches the caller
    as it is. An operation that not every store supports has a default here, which is the answer
    that most stores give.
    """

    capabilities: Capabilities
    min_ttl: float
    location: str
    """The store's address for display, without a password."""
    renewals_at_once: int = 1_000_000
    """Maximum number of grants in one call of `renew`; callers split a larger number over several
    calls."""

    async def try_acquire(self, claim: Claim, *, deadline: float) -> Grant | Held:
        """Return a grant, or Held with the holders. Idempotent per claim.

        A repeat keeps the claim's place in line. If the claim holds already, the repeat resets the
        deadline of the hold in the same atomic step. A claim that was withdrawn with a tombstone
        gets nothing.

        If a grant or a refusal depends on a count, the store checks the count against the counted
        records, because it may have lost a part of its data. A waiting claim that has lost its
        place is woken.
        """
        ...

    async def try_acquire_all(
        self, claims: Sequence[Claim], *, deadline: float
    ) -> Sequence[Grant] | None:
        """Grant claims of different names in one atomic step, if all their doors are empty.

        Returns None if one of the doors is not empty, or if the store cannot do this in one step.
        Then nothing was done, and the caller acquires the claims one by one.
        """
        del claims, deadline
        return None

    def server_of(self, name: str) -> str:
        """Return the known server of the name; "" if the whole store acts as a single server.

        Callers keep names on different servers apart, so that a server that does not answer does
        not delay requests to the other servers.
        """
        del name
        return ""

    async def renew(
        self, grants: Sequence[Grant], *, deadline: float
    ) -> Sequence[Renewal | Proven]:
        """Renew the grants, in one round trip where the store can, and return one result per grant.

        A renewal never resurrects an expired lease and never takes a new token. Where leases depend
        on a session, the result for a renewed grant is Proven, which says from when the ttl counts.
        """
        ...

    async def hand_over(self, grant: Grant, *, deadline: float) -> Renewal:
        """Renew, and transfer the hold to the client and owner that the grant names.

        After the first client has given up the hold and before another client adopts it, the hold
        belongs to no client and ends only with its ttl. Returns LOST if the hold already belongs to
        another client, so if two clients try to adopt a hold, the first client gets it.
        """
        del grant, deadline
        raise ConfigurationError("this backend cannot hand a lease over to another client")

    def guard(self, grant: Grant) -> RevisionGuard:
        """Return a comparison that makes a transaction in this store commit only under the grant.

        Sends no request. Only etcd supports this; with any other store, the resource itself has to
        check the token.
        """
        raise ConfigurationError(
            "this backend cannot guard a transaction of yours by a lease; etcd can (etcd://). Give "
            "the token to what you write to, and let it refuse smaller ones",
            name=grant.claim.name,
        )

    async def release(self, grant: Grant, *, deadline: float, tombstone: bool) -> bool:
        """End the hold and admit the next claim; return whether the hold was still ours."""
        ...

    async def withdraw(self, claim: Claim, *, deadline: float, tombstone: bool) -> None:
        """Make sure that the claim neither holds nor waits; may be repeated any number of times.

        With a tombstone, the store also refuses a late copy of the claim's own request. Callers ask
        for a tombstone if a request of the claim was not answered.
        """
        ...

    async def wait(self, claim: Claim, *, deadline: float) -> None:
        """Return when asking again may help; may return early, late or for no reason."""
        ...

    def wake(self, claim: Claim) -> None:
        """Make a `wait` of this claim return soon; may be called from any thread."""
        ...

    async def inspect(self, name: str, *, deadline: float) -> Inspection:
        """Return the state of one name; read-only, may be stale.

        The result lists all holders and all waiters. Capacity that is free but kept closed by
        min_hold or lock_delay is reported as closing, never as held. Like every method that only
        reads, `inspect` writes nothing to the store.
        """
        ...

    async def crowds(self, names: Sequence[str], *, deadline: float) -> Sequence[Crowd]:
        """Return how many claims are at each name; read-only, may be stale, and only a hint.

        A waiter in line at one of several shards uses the counts to choose among the shards. All
        counts are read in one round trip where the store can.
        """
        seen = [await self.inspect(name, deadline=deadline) for name in names]
        return [
            Crowd(len(one.holders) + len(one.closing) + len(one.line), one.last_token)
            for one in seen
        ]

    async def attest(self, name: str, *, deadline: float) -> Inspection:
        """Like `inspect`, but never stale; the result has no hold that ended before the call.

        Sequencers are checked against the result. A backend that declares `sequencers` guarantees
        this, and identifies the hold of each holder (`core.lease_text.hold_of`).
        """
        return await self.inspect(name, deadline=deadline)

    def survey(self, prefix: str, *, deadline: float) -> AsyncIterator[Inspection]:
        """Yield the state of each name with this prefix that is in use or closing, in byte order.

        A list that ends without an error is complete. If a part of the store cannot be reached, the
        names of the other parts are yielded, and then a BackendUnavailable is raised that says what
        is missing.
        """
        ...

    async def break_(
        self, name: str, *, token: int | None = None, owner: str | None = None, deadline: float
    ) -> tuple[Holder, ...]:
        """End every hold on the name and return the holders; tokens continue to grow.

        With a token, only the hold with that very token ends. The store compares the token in the
        step that ends the hold, so the hold of a successor is left alone. With an owner, only the
        holds of that explicit owner end. Capacity that is closing stays closed.
        """
        ...

    async def diagnose(self, *, deadline: float) -> Sequence[Finding]:
        """Return what this deployment guarantees, read from the store's own settings."""
        ...

    def schema(self) -> Schema | None:
        """Return the tables that the store needs, or None if it needs none; sends no request."""
        return None

    async def make_schema(self, *, deadline: float) -> bool:
        """Create the tables, and return whether any table was missing."""
        del deadline
        raise ConfigurationError("this backend has no tables to make")

    async def drop_schema(self, *, deadline: float) -> bool:
        """Drop the tables with all locks in them, and return whether any table existed."""
        del deadline
        raise ConfigurationError("this backend has no tables to drop")

    def attach(self, *, ttl: float, hurry: Callable[[], None]) -> None:
        """Receive the ttl of the client's leases, and `hurry`, which starts a renewal at once.

        Where leases depend on a session, the session is opened with that ttl. When the session or
        the connection is lost, the backend calls `hurry`, from any thread.
        """
        del ttl, hurry

    def bound_requests(self, request_timeout: float) -> bool:
        """Limit each request to `request_timeout` from its sending; return whether this is done.

        This is for a store where a request may first wait for one of the client's few connections,
        because that wait must not use up the request's own time. If this is done, the deadline of a
        `try_acquire` is that of the whole acquire, which may be infinite, and `counted_from` in a
        grant says when the request got its connection. The other methods get a deadline that is one
        request timeout away.
        """
        del request_timeout
        return False

    async def disown(self, client: str, *, deadline: float) -> None:
        """Keep the client's holds until their ttl ends, although the client goes away."""
        ...

    async def aclose(self) -> None:
        """Close every connection, thread and file; they are opened again on the next use."""
        ...
