"""The verbs on a SQL server: one statement where nobody else is, else one short transaction."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from lockfast._async.backend import AsyncBackend
from lockfast.backends.sql._async.doors import AsyncDoors
from lockfast.backends.sql._async.first_use import AsyncFirstUse
from lockfast.backends.sql._async.inbox import AsyncInbox
from lockfast.backends.sql._async.making import dropped, made
from lockfast.backends.sql._async.sweeping import AsyncSweeper
from lockfast.backends.sql._async.tidying import AsyncTidying
from lockfast.backends.sql._async.together import AsyncTogether
from lockfast.backends.sql._async.wire import AsyncWire
from lockfast.backends.sql.known_names import KnownNames
from lockfast.backends.sql.looking import Looking, sight_of
from lockfast.backends.sql.parties import as_stored, party_key
from lockfast.backends.sql.passing import Arrival, Arrived, Outcome, Withdrawal
from lockfast.backends.sql.steps import side_by_side
from lockfast.backends.sql.taking_all import TakingAll
from lockfast.backends.sql.turns import Turn
from lockfast.backends.sql.verbs import Decided, Verbs
from lockfast.core.naming import name_of, storage_key
from lockfast.errors import ConfigurationError
from lockfast.model import Grant, Held, Renewal
from lockfast.runtime import aio as runtime
from lockfast.runtime import forking

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from lockfast.backends.sql._async.ears import AsyncEars
    from lockfast.backends.sql.passing import Passage
    from lockfast.backends.sql.steps import Steps
    from lockfast.backends.sql.store import Store
    from lockfast.model import Claim, Holder, Inspection, Schema
    from lockfast.runtime.clock import Clock

T = TypeVar("T")
W = TypeVar("W", bound=AsyncWire[Any])

TOGETHER = 250
"""As many leases are renewed in one transaction: their names are locked for its length."""

PAGE = 100
"""So many names are inspected in one round trip."""

MOST_CONNECTIONS = 100

RUNG = float("inf")
"""When a claim in line should ask again: when it is rung, since the inbox looks for the rest."""


class AsyncSqlBackend(AsyncBackend, Generic[W]):
    """Locks in two tables of a server's database. A store brings its wire and its words.

    With `ears` the server can ring; without, the inbox looks more often.
    """

    min_ttl = 0.05
    renewals_at_once = TOGETHER

    def __init__(
        self,
        wire: W,
        store: Store,
        *,
        location: str,
        clock: Clock,
        namespace: str,
        ears: AsyncEars | None = None,
    ) -> None:
        statements = store.statements
        self.location = location
        self._clock = clock
        self._namespace = namespace
        self._wire = wire
        self._tables = store.tables
        self._dialect = store.dialect
        self._statements = statements
        self._ringing = store.ringing
        self._first_use = AsyncFirstUse(wire, store.tables, clock)
        self._sweeper = AsyncSweeper(wire, store.broom)
        self._verbs = Verbs(store.dialect, namespace=namespace)
        self._inbox = AsyncInbox(wire, Looking(statements, namespace=namespace), clock, ears=ears)
        self._tidying = AsyncTidying(wire, self._sweeper, clock)
        self._taking_all = TakingAll(statements, namespace=namespace)
        self._together = AsyncTogether(wire, statements, clock=clock)
        self._doors = AsyncDoors(wire, self._through, clock=clock)
        # Whoever comes for a name that another of ours is about to take goes through the door, with
        # all who come meanwhile. Weakly: kept by the frames of the one who takes it.
        self._taking: weakref.WeakValueDictionary[str, Turn] = weakref.WeakValueDictionary()
        self._known = KnownNames()
        forking.forget_in_child(self)

    # -- the verbs ---------------------------------------------------------------------

    def bound_requests(self, request_timeout: float) -> bool:
        """See the protocol."""
        self._wire.request_timeout = request_timeout
        return True

    async def try_acquire(self, claim: Claim, *, deadline: float) -> Grant | Held:
        """See the protocol."""
        await self._be_ready(deadline)
        kept = as_stored(claim)
        turn = Turn(self._wire.request_timeout)
        arrived = self._inbox.lines.arrival_of(claim)
        if arrived is not None:
            answer = await self._ask_again(claim, arrived, deadline, turn)
            if answer is not None:
                return answer
        elif not (self._inbox.lines.are_at(claim.name) or claim.name in self._taking):
            self._taking[claim.name] = turn
            is_known = claim.name in self._known
            token = await self._together.take(kept, deadline=deadline, is_known=is_known, turn=turn)
            if not is_known:
                self._known.add(claim.name)
            if token is not None:
                return self._granted(claim, token, turn)
        answer = await self._arrive(kept, arrived, deadline, turn)
        return self._granted(claim, answer.token, turn) if isinstance(answer, Grant) else answer

    def _granted(self, claim: Claim, token: int | None, turn: Turn) -> Grant:
        # Its time in the queue is none of the lease's: the store counts from the request.
        counted_from = None if turn.patience is None else turn.came_at
        return Grant(claim, token, claim.ttl, counted_from=counted_from)

    async def _ask_again(
        self, claim: Claim, arrived: int, deadline: float, turn: Turn
    ) -> Grant | Held | None:
        """Return the answer to one who stands in line; None if it has to go through the door."""
        if not self._inbox.was_called(claim.id):
            return await self._still_waiting(as_stored(claim), arrived, deadline)
        confirm = self._statements.confirm(claim, arrived)
        rows = await self._wire.ask(confirm, deadline=deadline, turn=turn)
        token = self._statements.token_in(rows)
        if token is None:
            return None
        self._inbox.forget(claim.id)
        return self._granted(claim, token, turn)

    async def try_acquire_all(
        self, claims: Sequence[Claim], *, deadline: float
    ) -> Sequence[Grant] | None:
        """See the protocol."""
        await self._be_ready(deadline)
        kept = [as_stored(one) for one in claims]
        tokens = await self._wire.transact(lambda: self._taking_all.take(kept), deadline=deadline)
        if tokens is None:
            return None
        pairs = zip(claims, tokens, strict=True)
        return [Grant(claim, token, claim.ttl) for claim, token in pairs]

    async def renew(self, grants: Sequence[Grant], *, deadline: float) -> Sequence[Renewal]:
        """See the protocol."""
        await self._be_ready(deadline)
        return await self._renew_all(grants, deadline)

    async def hand_over(self, grant: Grant, *, deadline: float) -> Renewal:
        """See the protocol."""
        await self._be_ready(deadline)
        claim = as_stored(grant.claim)
        return await self._transact(lambda: self._verbs.hand_over(claim), deadline)

    async def release(self, grant: Grant, *, deadline: float, tombstone: bool) -> bool:
        """See the protocol."""
        await self._be_ready(deadline)
        claim = grant.claim
        self._sweeper.count()
        # Where others of ours stand in line, it has to go through the door in any case.
        is_alone = not (tombstone or self._inbox.lines.are_at(claim.name))
        if is_alone and await self._together.give_back(claim, deadline=deadline):
            return True
        return await self._transact(
            lambda: self._verbs.release(claim, tombstone=tombstone), deadline
        )

    async def withdraw(self, claim: Claim, *, deadline: float, tombstone: bool) -> None:
        """See the protocol."""
        await self._be_ready(deadline)
        arrived = self._inbox.lines.arrival_of(claim)
        try:
            await self._doors.go(
                Withdrawal(as_stored(claim), arrived, tombstone), deadline=deadline
            )
        finally:
            # Not before: until then it may be rung for, and what was noted would stay.
            self._inbox.forget(claim.id)

    async def wait(self, claim: Claim, *, deadline: float) -> None:
        """See the protocol."""
        await self._inbox.wait(claim, deadline=deadline)

    def rouse(self, claim: Claim) -> None:
        """See the protocol."""
        self._inbox.ring([claim.id])

    async def inspect(self, name: str, *, deadline: float) -> Inspection:
        """See the protocol."""
        await self._be_ready(deadline)
        return await self._wire.look(lambda: self._verbs.inspect(name), deadline=deadline)

    async def survey(self, prefix: str, *, deadline: float) -> AsyncIterator[Inspection]:
        """See the protocol; the deadline is for each request, as there may be many."""
        patience = deadline - self._clock.now()
        await self._be_ready(deadline)
        start = storage_key(self._namespace, prefix)
        keys = await self._wire.ask(self._dialect.names_in_use(start), deadline=deadline)
        names = [name_of(bytes(key)) for (key,) in keys]
        for i in range(0, len(names), PAGE):
            page = names[i : i + PAGE]
            found = await self._wire.look(
                lambda page=page: side_by_side([self._verbs.inspect(one) for one in page]),  # type: ignore[misc]
                deadline=self._clock.now() + patience,
            )
            for one in found:
                if one.is_in_use:
                    yield one

    async def break_(
        self, name: str, *, token: int | None = None, owner: str | None = None, deadline: float
    ) -> tuple[Holder, ...]:
        """See the protocol."""
        await self._be_ready(deadline)
        party = None if owner is None else party_key(owner)
        return await self._transact(
            lambda: self._verbs.break_(name, token=token, party=party), deadline
        )

    def schema(self) -> Schema:
        """See the protocol."""
        return self._tables.as_schema()

    async def make_schema(self, *, deadline: float) -> bool:
        """See the protocol."""
        return await made(self._wire, self._tables, deadline=deadline)

    async def drop_schema(self, *, deadline: float) -> bool:
        """See the protocol."""
        return await dropped(self._wire, self._tables, deadline=deadline)

    async def disown(self, client: str, *, deadline: float) -> None:
        """See the protocol; here what is held ends by its ttl in any case."""
        del client, deadline

    async def aclose(self) -> None:
        """See the protocol."""
        await runtime.each_in_turn(
            self._inbox.stop,
            self._tidying.stop,
            self._first_use.stop,
            self._together.close,
            self._doors.close,
            self._wire.close,
        )

    def after_fork_in_child(self) -> None:
        """Let the child begin with nothing of the parent's."""
        self._wire.after_fork_in_child()
        self._first_use.after_fork_in_child()
        self._together.after_fork_in_child()
        self._doors.after_fork_in_child()
        self._inbox.after_fork_in_child()
        self._tidying.after_fork_in_child()
        self._sweeper.after_fork_in_child()

    async def _be_ready(self, deadline: float) -> None:
        self._tidying.begin()
        if not self._first_use.is_over:
            await self._first_use.ready(deadline=deadline)

    # -- where nobody else is ----------------------------------------------------------

    async def _renew_all(self, grants: Sequence[Grant], deadline: float) -> Sequence[Renewal]:
        """Renew by one statement all who stand alone in their name's row, the others by doors."""
        claims = [as_stored(grant.claim) for grant in grants]
        is_renewed = await self._together.renew(claims, deadline=deadline)
        left = [claim for claim, is_done in zip(claims, is_renewed, strict=True) if not is_done]
        if not left:
            return [Renewal.RENEWED] * len(claims)
        found = await self._transact(lambda: self._verbs.renew(left), deadline)
        others = iter(found)
        return [Renewal.RENEWED if is_done else next(others) for is_done in is_renewed]

    # -- through the door --------------------------------------------------------------

    async def _arrive(
        self, claim: Claim, arrived: int | None, deadline: float, turn: Turn
    ) -> Grant | Held:
        bell = self._inbox.bell if claim.queues else ""
        outcome = await self._doors.go(Arrival(claim, bell, arrived), deadline=deadline, turn=turn)
        if not isinstance(outcome, Arrived):
            raise outcome or AssertionError("an arrival has an answer")
        place = outcome.door.find(claim.id)
        has_moved = place is not None and arrived not in (None, place.arrived)
        if has_moved and self._inbox.lines.arrival_of(claim) == arrived:
            self._inbox.lose(claim)
        return self._told(claim, outcome)

    async def _through(
        self, passages: Sequence[Passage], *, deadline: float, turn: Turn
    ) -> list[Outcome]:
        """Let claims pass the door of their name in one transaction."""
        return await self._transact(lambda: self._verbs.together(passages), deadline, turn)

    async def _still_waiting(self, claim: Claim, arrived: int, deadline: float) -> Held | None:
        """Return the answer to a claim whose turn has not come, None if it has to arrive."""
        seen = await self._wire.transact(
            lambda: self._verbs.still_waiting(claim, arrived=arrived), deadline=deadline
        )
        if seen is None or isinstance(seen.answer, Grant):
            return None
        answer = self._told(claim, seen)
        return None if isinstance(answer, Grant) else answer

    def _told(self, claim: Claim, seen: Arrived) -> Grant | Held:
        """Know where the claim stands now, and return its answer."""
        answer, door = seen
        place = door.find(claim.id)
        if isinstance(answer, Grant) or answer.place is None or place is None:
            self._inbox.forget(claim.id)
            return answer
        sight = sight_of(door.places, answer, now=door.now)
        self._inbox.stands(claim, place.arrived, sight)
        return Held(answer.holders, answer.place, RUNG, answer.closing)

    async def _transact(
        self, steps: Callable[[], Steps[Decided[T]]], deadline: float, turn: Turn | None = None
    ) -> T:
        """Do the steps in one transaction, which rings those whom it has woken."""
        inbox, ours = self._inbox, list[str]()
        try:
            return await self._wire.transact(
                lambda: self._ringing.after(
                    steps, channel=inbox.channel, here=inbox.lines, ours=ours
                ),
                deadline=deadline,
                turn=turn,
            )
        finally:
            # Also where the answer is missing: a ring for nothing does no harm.
            inbox.call(ours)


def checked_connections(connections: int | str) -> int:
    """Return how many connections a client may use at once."""
    text = str(connections)
    if not text.isdecimal() or not 1 <= int(text) <= MOST_CONNECTIONS:
        raise ConfigurationError(
            f"connections={connections!r}: a number from 1 to {MOST_CONNECTIONS} is accepted"
        )
    return int(text)
