# Generated from src/lockfast/_async/backend.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""The port to one store: what every backend answers, and nothing of how."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from lockfast.errors import ConfigurationError
from lockfast.model import Crowd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

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


class Backend(Protocol):
    """The verbs of a store. `deadline` is on the client's clock: give up then.

    A verb that gives up, or fails, says what it knows: BackendUnavailable when nothing
    was done, OutcomeUnknown when a request was sent and not answered. Driver errors never
    escape as they are. A backend that inherits this gets the answers that most stores give
    to what not every store can do.
    """

    capabilities: Capabilities
    min_ttl: float
    location: str
    """Where the store is, for people; no password in it."""
    renewals_at_once: int = 1_000_000
    """As many grants are given to one call of `renew`; the others to the next ones."""

    def try_acquire(self, claim: Claim, *, deadline: float) -> Grant | Held:
        """Grant, or say who holds it. Idempotent per claim.

        A repeat keeps the place in line, or, if the claim holds, sets its deadline anew in
        the same atomic step. A claim that was withdrawn with a tombstone gets nothing.

        A count is checked against what it counts wherever a grant or a refusal rests on it: a
        store may lose a part of what it keeps. A waiting claim that has lost its place is rung.
        """
        ...

    def try_acquire_all(
        self, claims: Sequence[Claim], *, deadline: float
    ) -> Sequence[Grant] | None:
        """Grant claims of different names in one atomic step, if nobody is at their doors.

        None if somebody is, or the store cannot: nothing was done then, and they are asked
        for one by one.
        """
        del claims, deadline
        return None

    def server_of(self, name: str) -> str:
        """Return which of the store's servers is asked about the name, as far as is known.

        Where there are several, one that does not answer delays nothing at the others.
        """
        del name
        return ""

    def renew(self, grants: Sequence[Grant], *, deadline: float) -> Sequence[Renewal | Proven]:
        """Answer one Renewal per grant, in one round trip where the store can.

        Never resurrects an expired lease and never takes a new token. Where a session carries
        the claims, what is renewed is Proven, and says from when that counts.
        """
        ...

    def hand_over(self, grant: Grant, *, deadline: float) -> Renewal:
        """Renew, and let the hold be that of the client and owner that the grant names.

        Of no client while it is on its way from one to another: then it ends by its ttl alone.
        LOST if it is another client's already: of two who adopt it, the first has it.
        """
        del grant, deadline
        raise ConfigurationError("this backend cannot hand a lease over to another client")

    def guard(self, grant: Grant) -> RevisionGuard:
        """Say what a transaction in this store has to compare to be done only under the grant.

        Asks nobody. None of the others can: there a resource has to look at the token.
        """
        raise ConfigurationError(
            "this backend cannot guard a transaction of yours by a lease; etcd can (etcd://). Give "
            "the token to what you write to, and let it refuse smaller ones",
            name=grant.claim.name,
        )

    def release(self, grant: Grant, *, deadline: float, tombstone: bool) -> bool:
        """End the hold and admit the next; true iff it was still ours."""
        ...

    def withdraw(self, claim: Claim, *, deadline: float, tombstone: bool) -> None:
        """Make sure that the claim neither holds nor waits; any number of times.

        With a tombstone also against its own late request: one was not answered.
        """
        ...

    def wait(self, claim: Claim, *, deadline: float) -> None:
        """Return when asking again may help; may return early, late or for no reason."""
        ...

    def rouse(self, claim: Claim) -> None:
        """Let a `wait` of this claim return soon, because its client is closing; any thread."""
        ...

    def inspect(self, name: str, *, deadline: float) -> Inspection:
        """Tell of one name; read-only, may be stale.

        All who hold and all who wait. What nobody holds but min_hold or lock_delay keeps
        closed is told as closing, never as held. Like every verb that only looks, it writes
        nothing to the store.
        """
        ...

    def crowds(self, names: Sequence[str], *, deadline: float) -> Sequence[Crowd]:
        """Tell how many are at each of the names; read-only, may be stale, and only a hint.

        Asked for by who stands in line at one of several shards: in one round trip where the
        store can.
        """
        seen = [self.inspect(name, deadline=deadline) for name in names]
        return [
            Crowd(len(one.holders) + len(one.closing) + len(one.line), one.last_token)
            for one in seen
        ]

    def attest(self, name: str, *, deadline: float) -> Inspection:
        """Tell of one name as `inspect` does, and not stale: nothing that ended before this.

        By it a sequencer is judged; who declares `sequencers` keeps to it, and tells of each
        holder which hold it has (`core.sequencing.hold_of`).
        """
        return self.inspect(name, deadline=deadline)

    def survey(self, prefix: str, *, deadline: float) -> Iterator[Inspection]:
        """Tell of every name in use with this prefix, in byte order; a closed one is in use.

        A list that ends without an error is complete. Where a part of the store cannot be asked,
        yield what the rest has, then raise a BackendUnavailable that says what is missing.
        """
        ...

    def break_(
        self, name: str, *, token: int | None = None, owner: str | None = None, deadline: float
    ) -> tuple[Holder, ...]:
        """End whatever holds the name, and return that; the next token is still larger.

        With a token, only what holds by that very token, decided in the step that ends it: a
        successor is left alone. With an owner, only what that explicit owner holds. What is
        closing stays closed.
        """
        ...

    def diagnose(self, *, deadline: float) -> Sequence[Finding]:
        """Tell what this deployment can promise, read from the store's own settings."""
        ...

    def schema(self) -> Schema | None:
        """Say which tables the store needs; None where it needs nothing made. Asks nobody."""
        return None

    def make_schema(self, *, deadline: float) -> bool:
        """Make the tables, and return whether any was missing."""
        del deadline
        raise ConfigurationError("this backend has no tables to make")

    def drop_schema(self, *, deadline: float) -> bool:
        """Drop the tables with all that is locked, and return whether there was any."""
        del deadline
        raise ConfigurationError("this backend has no tables to drop")

    def attach(self, *, ttl: float, hurry: Callable[[], None]) -> None:
        """Know the client: the ttl of its leases, and how to let it renew them at once.

        Of use where a session carries them. It is opened for that ttl; and when it was lost,
        or the connection was, `hurry` is called, from any thread.
        """
        del ttl, hurry

    def bound_requests(self, request_timeout: float) -> bool:
        """Give each request so long from the moment it is sent; whether the backend does.

        For a store where a request may wait before it is sent, because the client has only a few
        connections: that wait must not use up the request's own time. The deadline of a
        `try_acquire` is then the last moment of the whole acquire, which may be infinite, and
        a grant says by `counted_from` when it was asked for. The others are given a deadline
        that is one request timeout away.
        """
        del request_timeout
        return False

    def disown(self, client: str, *, deadline: float) -> None:
        """Leave what the client holds to its ttl, although the client goes away."""
        ...

    def close(self) -> None:
        """Let go of every connection, thread and file; opened again when used again."""
        ...
