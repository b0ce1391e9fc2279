"""The verbs on a SQL server: one statement where nobody else is, else one short transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from holdfast._async.backend import AsyncBackend
from holdfast.backends.sql._async.first_use import AsyncFirstUse
from holdfast.backends.sql._async.inbox import AsyncInbox
from holdfast.backends.sql._async.making import dropped, made
from holdfast.backends.sql._async.sweeping import AsyncSweeper
from holdfast.backends.sql._async.tidying import AsyncTidying
from holdfast.backends.sql._async.together import AsyncTogether
from holdfast.backends.sql._async.wire import AsyncWire
from holdfast.backends.sql.known_names import KnownNames
from holdfast.backends.sql.looking import Looking, sight_of
from holdfast.backends.sql.parties import as_stored, party_key
from holdfast.backends.sql.steps import side_by_side
from holdfast.backends.sql.taking_all import TakingAll
from holdfast.backends.sql.verbs import Decided, Verbs
from holdfast.core.naming import name_of, storage_key
from holdfast.errors import ConfigurationError
from holdfast.model import Grant, Held, Renewal
from holdfast.runtime import forking

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from holdfast.backends.sql._async.ears import AsyncEars
    from holdfast.backends.sql.steps import Steps
    from holdfast.backends.sql.store import Store
    from holdfast.backends.sql.verbs import Arrived
    from holdfast.model import Claim, Holder, Inspection, Schema
    from holdfast.runtime.clock import Clock

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
        self._first_use = AsyncFirstUse(wire, store.tables)
        self._sweeper = AsyncSweeper(wire, store.broom)
        self._verbs = Verbs(store.dialect, namespace=namespace)
        self._inbox = AsyncInbox(wire, Looking(statements, namespace=namespace), clock, ears=ears)
        self._tidying = AsyncTidying(wire, self._sweeper, clock)
        self._taking_all = TakingAll(statements, namespace=namespace)
        self._together = AsyncTogether(wire, statements, clock=clock)
        self._known = KnownNames()
        forking.forget_in_child(self)

    # -- the verbs ---------------------------------------------------------------------

    async def try_acquire(self, claim: Claim, *, deadline: float) -> Grant | Held:
        """See the protocol."""
        await self._be_ready(deadline)
        kept = as_stored(claim)
        arrived = self._inbox.lines.arrival_of(claim)
        if arrived is not None:
            answer = await self._ask_again(claim, arrived, deadline)
            if answer is not None:
                return answer
        elif not self._inbox.lines.are_at(claim.name):
            is_known = claim.name in self._known
            token = await self._together.take(kept, deadline=deadline, is_known=is_known)
            if not is_known:
                self._known.add(claim.name)
            if token is not None:
                return Grant(claim, token, claim.ttl)
        answer = await self._arrive(kept, arrived, deadline)
        return Grant(claim, answer.token, claim.ttl) if isinstance(answer, Grant) else answer

    async def _ask_again(self, claim: Claim, arrived: int, deadline: float) -> Grant | Held | None:
        """Return the answer to one who stands in line; None if it has to go through the door."""
        if not self._inbox.was_called(claim.id):
            return await self._still_waiting(as_stored(claim), arrived, deadline)
        rows = await self._wire.ask(self._statements.confirm(claim, arrived), deadline=deadline)
        token = self._statements.token_in(rows)
        if token is None:
            return None
        self._inbox.forget(claim.id)
        return Grant(claim, token, claim.ttl)

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
        if not tombstone and await self._together.give_back(claim, deadline=deadline):
            return True
        return await self._transact(
            lambda: self._verbs.release(claim, tombstone=tombstone), deadline
        )

    async def withdraw(self, claim: Claim, *, deadline: float, tombstone: bool) -> None:
        """See the protocol."""
        await self._be_ready(deadline)
        kept, arrived = as_stored(claim), self._inbox.lines.arrival_of(claim)
        try:
            await self._transact(
                lambda: self._verbs.withdraw(kept, arrived=arrived, tombstone=tombstone), deadline
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
        await self._inbox.stop()
        await self._tidying.stop()
        await self._together.close()
        await self._wire.close()

    def after_fork_in_child(self) -> None:
        """Let the child begin with nothing of the parent's."""
        self._wire.after_fork_in_child()
        self._together.after_fork_in_child()
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

    async def _arrive(self, claim: Claim, arrived: int | None, deadline: float) -> Grant | Held:
        bell = self._inbox.bell if claim.queues else ""
        found: list[Arrived] = []

        def steps() -> Steps[Decided[Grant | Held]]:
            seen = yield from self._verbs.arrive(claim, bell=bell, arrived=arrived)
            found[:] = [seen]
            return Decided(seen.answer, seen.door.woken)

        await self._transact(steps, deadline)
        return self._told(claim, found[0])

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

    async def _transact(self, steps: Callable[[], Steps[Decided[T]]], deadline: float) -> T:
        """Do the steps in one transaction, which rings those whom it has woken."""
        inbox, ours = self._inbox, list[str]()
        try:
            return await self._wire.transact(
                lambda: self._ringing.after(
                    steps, channel=inbox.channel, here=inbox.lines, ours=ours
                ),
                deadline=deadline,
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
