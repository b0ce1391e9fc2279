# Generated from src/lockfast/backends/sql/_async/backend.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""The verbs of the port on a SQL server.

An uncontended request takes one statement, and any other request one short transaction.
"""

from __future__ import annotations

import hashlib
import inspect
import weakref
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

from lockfast.backends._sync.backend import Backend
from lockfast.backends.sql._sync.borrowed import Borrower
from lockfast.backends.sql._sync.group_commit import (
    GroupCommit,
    KnownNames,
    NameQueues,
)
from lockfast.backends.sql._sync.maintenance import (
    IdleReaper,
    NameReaper,
    SchemaBootstrap,
    drop_tables,
    make_tables,
)
from lockfast.backends.sql._sync.sources import (
    ConnectionSource,
    EngineSource,
    FactorySource,
    PoolSource,
)
from lockfast.backends.sql._sync.transport import CONNECTIONS_DEFAULT, SqlTransport
from lockfast.backends.sql._sync.waiting import QueuedClaim, SqlWaiting, expected_by
from lockfast.backends.sql.batch import AcquireAll
from lockfast.backends.sql.door_rows import Arrival, Arrived, Outcome, Withdrawal
from lockfast.backends.sql.foreign_clients import is_engine, is_pool
from lockfast.backends.sql.steps import side_by_side
from lockfast.backends.sql.turns import Turn
from lockfast.backends.sql.verbs import Decided, Verbs
from lockfast.backends.waiting._sync.inbox import Inbox
from lockfast.core.naming import name_of, storage_key
from lockfast.errors import ConfigurationError
from lockfast.model import FOREVER, Capabilities, Grant, Held, Renewal, TokenQuality
from lockfast.runtime import fork
from lockfast.runtime import threads as runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lockfast.backends.sql._sync.sources import Source
    from lockfast.backends.sql.door_rows import Passage
    from lockfast.backends.sql.statements import SqlStore
    from lockfast.backends.sql.steps import Steps
    from lockfast.model import Claim, Holder, Inspection, Schema
    from lockfast.runtime.clock import Clock

T = TypeVar("T")
W = TypeVar("W", bound=SqlTransport[Any])

RENEW_BATCH = 250
"""Number of leases renewed in one transaction. It is limited because the leases' names stay locked
until the transaction ends."""

SURVEY_PAGE = 100
"""Number of names inspected in one round trip."""

CONNECTIONS_MAX = 100

WAKEUP_ONLY = FOREVER
"""Retry delay of a claim in line. The claim asks again only when it is woken, because the inbox
polls on its behalf."""


class SqlBackend(Backend, Generic[W]):
    """Locks in two tables of a server's database.

    A store's subclass defines its transports. Its `_set_up` takes a transport and the options of
    the tables, and completes the construction; every constructor ends with it.
    """

    min_ttl = 0.05
    renewals_at_once = RENEW_BATCH
    capabilities = Capabilities(
        fair=True,
        shared=True,
        push_wakeup=False,
        explicit_owner=True,
        lock_delay=True,
        token_quality=TokenQuality.DURABLE,
        ends_by="ttl",
        hands_over=True,
        sequencers=True,
    )

    _scheme: ClassVar[str]
    _borrowed_transport: ClassVar[Callable[..., Any]]

    def __init__(self, transport: W, store: SqlStore, *, clock: Clock, namespace: str) -> None:
        statements = store.statements
        self.location = transport.where
        self._clock = clock
        self._namespace = namespace
        self._transport = transport
        self._tables = store.tables
        self._dialect = store.dialect
        self._statements = statements
        self._notifier = store.notifier
        self._bootstrap = SchemaBootstrap(transport, store.tables, clock)
        self._name_reaper = NameReaper(transport, store.reaper)
        self._verbs = Verbs(store.dialect, namespace=namespace)
        waiting = SqlWaiting(
            transport,
            statements,
            clock,
            namespace=namespace,
            can_listen=self.capabilities.push_wakeup,
        )
        self._inbox = Inbox[QueuedClaim](waiting, clock, arrival=lambda one: one.arrived)
        self._idle_reaper = IdleReaper(transport, self._name_reaper, clock)
        self._taking_all = AcquireAll(statements, namespace=namespace)
        self._together = GroupCommit(transport, statements, clock=clock)
        self._doors = NameQueues(transport, self._through, clock=clock)
        # The names that a claim of ours is about to take. Any other claim for such a name goes
        # through the door, together with all claims that come meanwhile. Only the frames of the
        # call that takes the name keep its turn alive, so the entry ends with that call.
        self._taking: weakref.WeakValueDictionary[str, Turn] = weakref.WeakValueDictionary()
        self._known = KnownNames()
        fork.reset_in_child(self)

    # -- over the application's own clients, or over a function that connects ----------

    @staticmethod
    def _where_of(client: Any) -> str:  # noqa: ANN401 - any library
        """Return the location of an engine, pool or connection for display, without a password."""
        raise NotImplementedError

    @classmethod
    def from_client(cls, client: Any, *, clock: Clock, **options: Any) -> Self:  # noqa: ANN401 - any library
        """Return a backend over the application's engine, pool or connection.

        Each request borrows a connection from the client, and returns it in its original state.
        """
        return cls._over(_source_of(client), cls._where_of(client), clock, **options)

    @classmethod
    def from_factory(
        cls,
        connect: Callable[[], object],
        *,
        clock: Clock,
        **options: Any,  # noqa: ANN401 - see `_over`
    ) -> Self:
        """Return a backend over connections that the function opens; they belong to the backend."""
        if runtime.FLAVOUR == "sync" and inspect.iscoroutinefunction(connect):
            raise ConfigurationError(
                "this function has to be awaited; give it to lockfast.AsyncLocks.from_factory"
            )
        where = f"{cls._scheme}:// by your function"
        return cls._over(FactorySource(connect), where, clock, **options)

    @classmethod
    def _over(
        cls,
        source: Source,
        where: str,
        clock: Clock,
        *,
        connections: int | str = CONNECTIONS_DEFAULT,
        **options: Any,  # noqa: ANN401 - the namespace, and where the store has its tables
    ) -> Self:
        self = cls.__new__(cls)
        borrower = Borrower(source, where=where, clock=clock)
        transport = cls._borrowed_transport(
            borrower, clock=clock, most=checked_connections(connections)
        )
        self._set_up(transport, clock=clock, **options)  # type: ignore[attr-defined]
        return self

    # -- the verbs ---------------------------------------------------------------------

    def bound_requests(self, request_timeout: float) -> bool:
        self._transport.request_timeout = request_timeout
        return True

    def try_acquire(self, claim: Claim, *, deadline: float) -> Grant | Held:
        self._be_ready(deadline)
        kept = _as_stored(claim)
        turn = Turn(self._transport.request_timeout)
        arrived = self._arrival_of(claim)
        if arrived is not None:
            answer = self._ask_again(claim, arrived, deadline, turn)
            if answer is not None:
                return answer
        elif claim.name not in self._taking and not self._inbox.schedule.has_waiters_at(claim.name):
            self._taking[claim.name] = turn
            is_known = claim.name in self._known
            token = self._together.take(kept, deadline=deadline, is_known=is_known, turn=turn)
            if not is_known:
                self._known.add(claim.name)
            if token is not None:
                return self._granted(claim, token, turn)
        answer = self._arrive(kept, arrived, deadline, turn)
        return self._granted(claim, answer.token, turn) if isinstance(answer, Grant) else answer

    def _granted(self, claim: Claim, token: int | None, turn: Turn) -> Grant:
        # The lease counts from when the request was sent, so the time that the request spent in our
        # queue is not part of the lease.
        counted_from = None if turn.patience is None else turn.started_at
        return Grant(claim, token, claim.ttl, counted_from=counted_from)

    def _ask_again(
        self, claim: Claim, arrived: int, deadline: float, turn: Turn
    ) -> Grant | Held | None:
        """Return the answer to a claim in line; None if the claim has to go through the door."""
        if self._inbox.heard(claim.id) is None:
            return self._still_waiting(_as_stored(claim), arrived, deadline)
        confirm = self._statements.confirm(claim, arrived)
        rows = self._transport.ask(confirm, deadline=deadline, turn=turn)
        token = self._statements.token_in(rows)
        if token is None:
            return None
        self._inbox.left(claim.id)
        return self._granted(claim, token, turn)

    def try_acquire_all(
        self, claims: Sequence[Claim], *, deadline: float
    ) -> Sequence[Grant] | None:
        self._be_ready(deadline)
        kept = [_as_stored(one) for one in claims]
        tokens = self._transport.transact(lambda: self._taking_all.take(kept), deadline=deadline)
        if tokens is None:
            return None
        pairs = zip(claims, tokens, strict=True)
        return [Grant(claim, token, claim.ttl) for claim, token in pairs]

    def renew(self, grants: Sequence[Grant], *, deadline: float) -> Sequence[Renewal]:
        self._be_ready(deadline)
        return self._renew_all(grants, deadline)

    def hand_over(self, grant: Grant, *, deadline: float) -> Renewal:
        self._be_ready(deadline)
        claim = _as_stored(grant.claim)
        return self._transact(lambda: self._verbs.hand_over(claim), deadline)

    def release(self, grant: Grant, *, deadline: float, tombstone: bool) -> bool:
        self._be_ready(deadline)
        claim = grant.claim
        self._name_reaper.count()
        # If other claims of ours are in line for the name, the release has to go through the door.
        is_alone = not (tombstone or self._inbox.schedule.has_waiters_at(claim.name))
        if is_alone and self._together.give_back(claim, deadline=deadline):
            return True
        return self._transact(lambda: self._verbs.release(claim, tombstone=tombstone), deadline)

    def withdraw(self, claim: Claim, *, deadline: float, tombstone: bool) -> None:
        self._be_ready(deadline)
        arrived = self._arrival_of(claim)
        try:
            self._doors.go(Withdrawal(_as_stored(claim), arrived, tombstone), deadline=deadline)
        finally:
            # Forget the claim only now. A wakeup may arrive until the withdrawal ends, and the
            # record of a wakeup that came after `left` would be kept.
            self._inbox.left(claim.id)

    def wait(self, claim: Claim, *, deadline: float) -> None:
        self._inbox.wait(claim, deadline=deadline)

    def wake(self, claim: Claim) -> None:
        self._inbox.wake([claim.id])

    def inspect(self, name: str, *, deadline: float) -> Inspection:
        self._be_ready(deadline)
        return self._transport.look(lambda: self._verbs.inspect(name), deadline=deadline)

    def survey(self, prefix: str, *, deadline: float) -> Iterator[Inspection]:
        """Yield every name in use; each request gets the full time, as there may be many names."""
        patience = deadline - self._clock.now()
        self._be_ready(deadline)
        start = storage_key(self._namespace, prefix)
        keys = self._transport.ask(self._dialect.names_in_use(start), deadline=deadline)
        names = [name_of(bytes(key)) for (key,) in keys]
        for i in range(0, len(names), SURVEY_PAGE):
            page = names[i : i + SURVEY_PAGE]
            found = self._transport.look(
                lambda page=page: side_by_side([self._verbs.inspect(one) for one in page]),  # type: ignore[misc]
                deadline=self._clock.now() + patience,
            )
            for one in found:
                if one.is_in_use:
                    yield one

    def break_(
        self, name: str, *, token: int | None = None, owner: str | None = None, deadline: float
    ) -> tuple[Holder, ...]:
        self._be_ready(deadline)
        party = None if owner is None else _owner_key(owner)
        return self._transact(lambda: self._verbs.break_(name, token=token, party=party), deadline)

    def schema(self) -> Schema:
        return self._tables.as_schema()

    def make_schema(self, *, deadline: float) -> bool:
        return make_tables(self._transport, self._tables, deadline=deadline)

    def drop_schema(self, *, deadline: float) -> bool:
        return drop_tables(self._transport, self._tables, deadline=deadline)

    def disown(self, client: str, *, deadline: float) -> None:
        """Do nothing, because every hold in this store ends with its ttl in any case."""
        del client, deadline

    def close(self) -> None:
        runtime.run_all_steps(
            self._inbox.stop,
            self._idle_reaper.stop,
            self._bootstrap.stop,
            self._together.close,
            self._doors.close,
            self._transport.close,
        )

    def after_fork_in_child(self) -> None:
        """Start the child without any state of the parent."""
        self._transport.after_fork_in_child()
        self._bootstrap.after_fork_in_child()
        self._together.after_fork_in_child()
        self._doors.after_fork_in_child()
        self._inbox.after_fork_in_child()
        self._idle_reaper.after_fork_in_child()
        self._name_reaper.after_fork_in_child()

    def _be_ready(self, deadline: float) -> None:
        self._idle_reaper.begin()
        if not self._bootstrap.is_over:
            self._bootstrap.ready(deadline=deadline)

    # -- the uncontended cycle ---------------------------------------------------------

    def _renew_all(self, grants: Sequence[Grant], deadline: float) -> Sequence[Renewal]:
        """Renew all claims, with one statement where possible.

        The statement renews a claim only if its entry is in the name's own row. All other claims go
        through their doors.
        """
        claims = [_as_stored(grant.claim) for grant in grants]
        is_renewed = self._together.renew(claims, deadline=deadline)
        left = [claim for claim, is_done in zip(claims, is_renewed, strict=True) if not is_done]
        if not left:
            return [Renewal.RENEWED] * len(claims)
        found = self._transact(lambda: self._verbs.renew(left), deadline)
        others = iter(found)
        return [Renewal.RENEWED if is_done else next(others) for is_done in is_renewed]

    # -- through the door --------------------------------------------------------------

    def _arrival_of(self, claim: Claim) -> int | None:
        """Return the arrival of the claim; None if the claim does not wait."""
        waiter = self._inbox.waiter(claim.id)
        return None if waiter is None else waiter.arrived

    @property
    def _channel(self) -> str:
        """The channel stored with a waiting claim; empty if notifications would not reach us."""
        inbox = self._inbox
        return inbox.channel if inbox.schedule.notifies or not inbox.policy.can_listen else ""

    def _arrive(
        self, claim: Claim, arrived: int | None, deadline: float, turn: Turn
    ) -> Grant | Held:
        bell = self._channel if claim.queues else ""
        outcome = self._doors.go(Arrival(claim, bell, arrived), deadline=deadline, turn=turn)
        if not isinstance(outcome, Arrived):
            raise outcome or AssertionError("an arrival has an answer")
        place = outcome.door.find(claim.id)
        if place is not None and arrived is not None and arrived != place.arrived:
            self._wake_others_at_name(claim, arrived)
        return self._recorded(claim, outcome)

    def _wake_others_at_name(self, claim: Claim, arrived: int) -> None:
        """Make our other claims ask again without relying on their old entries.

        The claim lost the entry at this arrival because it was turned away, and our other claims
        at its name probably lost theirs with it.
        """
        inbox = self._inbox
        with inbox.state:
            if self._arrival_of(claim) != arrived:
                return  # another of the claims has already found out, and did this
            others = [one for one in inbox.schedule.of_name(claim.name) if one != claim.id]
        inbox.wake(others)
        for claim_id in others:
            inbox.left(claim_id)

    def _through(self, passages: Sequence[Passage], deadline: float, turn: Turn) -> list[Outcome]:
        """Take claims of one name through its door in one transaction; return the outcomes."""
        return self._transact(lambda: self._verbs.together(passages), deadline, turn)

    def _still_waiting(self, claim: Claim, arrived: int, deadline: float) -> Held | None:
        """Return the answer to a claim that must wait on; None if it must arrive again."""
        seen = self._transport.transact(
            lambda: self._verbs.still_waiting(claim, arrived=arrived), deadline=deadline
        )
        if seen is None or isinstance(seen.answer, Grant):
            return None
        answer = self._recorded(claim, seen)
        return None if isinstance(answer, Grant) else answer

    def _recorded(self, claim: Claim, seen: Arrived) -> Grant | Held:
        """Record whether and where the claim waits now, and return the answer to the claim."""
        answer, door = seen
        place = door.find(claim.id)
        if isinstance(answer, Grant) or answer.place is None or place is None:
            self._inbox.left(claim.id)
            return answer
        ends_at, is_head = expected_by(door.places, answer, now=door.now, ours=self._clock.now())
        self._inbox.joined(QueuedClaim(claim, place.arrived), ends_at=ends_at, is_head=is_head)
        return Held(answer.holders, answer.place, WAKEUP_ONLY, answer.closing)

    def _transact(
        self, steps: Callable[[], Steps[Decided[T]]], deadline: float, turn: Turn | None = None
    ) -> T:
        """Run the steps in one transaction, and wake the claims that it admits or turns away."""
        inbox, ours = self._inbox, list[str]()
        try:
            return self._transport.transact(
                lambda: self._notifier.after(
                    steps, channel=inbox.channel, here=inbox.schedule.waiting, ours=ours
                ),
                deadline=deadline,
                turn=turn,
            )
        finally:
            # Wake these claims even if the reply is missing, because a spurious wakeup does no
            # harm.
            for claim_id in ours:
                inbox.hear(claim_id)
            inbox.wake(ours)


def checked_connections(connections: int | str) -> int:
    """Return how many connections a client may use at once, or raise."""
    text = str(connections)
    if not text.isdecimal() or not 1 <= int(text) <= CONNECTIONS_MAX:
        raise ConfigurationError(
            f"connections={connections!r}: a number from 1 to {CONNECTIONS_MAX} is accepted"
        )
    return int(text)


def _source_of(client: Any) -> Source:  # noqa: ANN401 - any library
    if is_engine(client):
        return EngineSource(client)
    return PoolSource(client) if is_pool(client) else ConnectionSource(client)


# The stored form of an explicit owner. The owner may be any text, and no column type holds every
# text, so a hash is stored.


def _owner_key(party: str) -> str:
    """Return the explicit owner as 32 hex digits, because its text may contain any character."""
    data = party.encode(errors="surrogatepass")
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _as_stored(claim: Claim) -> Claim:
    """Return the claim with its explicit owner in the stored form."""
    return claim if claim.party is None else replace(claim, party=_owner_key(claim.party))
