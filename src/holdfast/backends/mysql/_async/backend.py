"""The verbs on MySQL and MariaDB: one statement if nobody else is there, else a transaction."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from holdfast._async.backend import AsyncBackend
from holdfast.backends.mysql import findings
from holdfast.backends.mysql._async.wire import AsyncMysqlWire
from holdfast.backends.mysql.addresses import OPTIONS, address_of_url
from holdfast.backends.mysql.dialect import MysqlDialect
from holdfast.backends.mysql.schema import Tables
from holdfast.backends.mysql.statements import Statements, is_done, token_in
from holdfast.backends.sql._async.polling import AsyncPolling
from holdfast.backends.sql._async.wire import MOST
from holdfast.backends.sql.lines import Sight
from holdfast.backends.sql.parties import as_stored, party_key
from holdfast.backends.sql.steps import Ask, side_by_side
from holdfast.backends.sql.verbs import Verbs
from holdfast.core.naming import checked_namespace, name_of, storage_key
from holdfast.errors import ConfigurationError
from holdfast.model import Capabilities, Grant, TokenQuality
from holdfast.runtime import forking

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Sequence

    from holdfast.backends.sql.steps import Rows, Steps
    from holdfast.backends.sql.verbs import Arrived, Decided
    from holdfast.model import Claim, Finding, Held, Holder, Inspection, Renewal
    from holdfast.runtime.clock import Clock

T = TypeVar("T")

MOST_CONNECTIONS = 100

PAGE = 100
"""So many names are inspected in one round trip."""


class AsyncMysqlBackend(AsyncBackend):
    """Locks in two tables of a MySQL or MariaDB database."""

    capabilities = Capabilities(
        fair=True,
        shared=True,
        push_wakeup=False,
        explicit_owner=True,
        lock_delay=True,
        token_quality=TokenQuality.DURABLE,
        ends_by="ttl",
        hands_over=True,
    )
    min_ttl = 0.05
    renewals_at_once = 500
    options = OPTIONS

    def __init__(
        self,
        *,
        url: str,
        location: str,
        clock: Clock,
        namespace: str = "holdfast",
        table: str = "holdfast",
        connections: int | str = MOST,
        **options: object,
    ) -> None:
        address = address_of_url(url, where=location, options=options)
        self.location = location
        self._clock = clock
        self._namespace = checked_namespace(namespace)
        self._tables = Tables(table)
        self._wire = AsyncMysqlWire(address, clock=clock, most=_checked(connections))
        self._dialect = MysqlDialect(self._tables)
        self._statements = Statements(self._tables, namespace=self._namespace)
        self._verbs = Verbs(self._dialect, namespace=self._namespace)
        self._polling = AsyncPolling(self._look_at_lines, clock)
        self._has_tables = False
        forking.forget_in_child(self)

    # -- taking and giving back --------------------------------------------------------

    async def try_acquire(self, claim: Claim, *, deadline: float) -> Grant | Held:
        """See the protocol."""
        stored = as_stored(claim)
        arrived = self._polling.arrival_of(claim)
        decided: Arrived | None = None
        if arrived is None:
            rows = await self._ask(self._statements.take(stored), deadline=deadline)
            if (token := token_in(rows)) is not None:
                return Grant(claim, token, claim.ttl)
        else:
            known = arrived
            decided = await self._look(
                lambda: self._verbs.still_waiting(stored, arrived=known), deadline=deadline
            )
        if decided is None:
            decided = await self._arrive(stored, arrived, deadline=deadline)
        return self._answer(claim, decided)

    async def _arrive(self, stored: Claim, arrived: int | None, *, deadline: float) -> Arrived:
        decided = await self._wire.transact(
            lambda: self._verbs.arrive(stored, bell="", arrived=arrived), deadline=deadline
        )
        self._polling.ring_all(decided.door.woken)
        return decided

    def _answer(self, claim: Claim, decided: Arrived) -> Grant | Held:
        answer, door = decided
        if isinstance(answer, Grant):
            self._polling.forget(claim)
            return Grant(claim, answer.token, answer.ttl)
        place = door.find(claim.id)
        if place is None or answer.place is None:
            self._polling.forget(claim)
            return answer
        pause = self._polling.stands(claim, answer, arrived=place.arrived)
        return replace(answer, retry_in=pause)

    async def renew(self, grants: Sequence[Grant], *, deadline: float) -> Sequence[Renewal]:
        """See the protocol."""
        claims = [as_stored(one.claim) for one in grants]
        return await self._decide(lambda: self._verbs.renew(claims), deadline=deadline)

    async def hand_over(self, grant: Grant, *, deadline: float) -> Renewal:
        """See the protocol."""
        claim = as_stored(grant.claim)
        return await self._decide(lambda: self._verbs.hand_over(claim), deadline=deadline)

    async def release(self, grant: Grant, *, deadline: float, tombstone: bool) -> bool:
        """See the protocol."""
        claim = as_stored(grant.claim)
        if not tombstone:
            rows = await self._ask(self._statements.release(claim), deadline=deadline)
            if is_done(rows):
                return True
        return await self._decide(
            lambda: self._verbs.release(claim, tombstone=tombstone), deadline=deadline
        )

    async def withdraw(self, claim: Claim, *, deadline: float, tombstone: bool) -> None:
        """See the protocol."""
        stored, arrived = as_stored(claim), self._polling.arrival_of(claim)
        try:
            await self._decide(
                lambda: self._verbs.withdraw(stored, arrived=arrived, tombstone=tombstone),
                deadline=deadline,
            )
        finally:
            self._polling.forget(claim)

    async def break_(
        self, name: str, *, token: int | None = None, owner: str | None = None, deadline: float
    ) -> tuple[Holder, ...]:
        """See the protocol."""
        party = None if owner is None else party_key(owner)
        return await self._decide(
            lambda: self._verbs.break_(name, token=token, party=party), deadline=deadline
        )

    # -- waiting -----------------------------------------------------------------------

    async def wait(self, claim: Claim, *, deadline: float) -> None:
        """See the protocol."""
        await self._polling.wait(claim, deadline=deadline)

    def rouse(self, claim: Claim) -> None:
        """See the protocol."""
        self._polling.ring(claim.id)

    async def _look_at_lines(self, clients: Collection[str], deadline: float) -> list[Sight]:
        rows = await self._ask(self._statements.lines(clients), deadline=deadline)
        return [Sight(str(row[0]), bool(row[1]), bool(row[2])) for row in rows]

    # -- looking -----------------------------------------------------------------------

    async def inspect(self, name: str, *, deadline: float) -> Inspection:
        """See the protocol."""
        return await self._look(lambda: self._verbs.inspect(name), deadline=deadline)

    async def survey(self, prefix: str, *, deadline: float) -> AsyncIterator[Inspection]:
        """See the protocol; the deadline is for each request, as there may be many."""
        patience = deadline - self._clock.now()
        start = storage_key(self._namespace, prefix)
        keys = await self._ask(self._dialect.names_in_use(start), deadline=deadline)
        names = [name_of(bytes(key)) for (key,) in keys]
        for i in range(0, len(names), PAGE):
            page = names[i : i + PAGE]
            found = await self._look(
                lambda page=page: side_by_side([self._verbs.inspect(one) for one in page]),  # type: ignore[misc]
                deadline=self._clock.now() + patience,
            )
            for one in found:
                if one.is_in_use:
                    yield one

    async def diagnose(self, *, deadline: float) -> Sequence[Finding]:
        """See the protocol."""
        return findings.findings(await self._ask(findings.SETTINGS, deadline=deadline))

    # -- asking ------------------------------------------------------------------------

    async def _ask(self, request: Ask, *, deadline: float) -> Rows:
        await self._make_tables(deadline)
        return await self._wire.ask(request, deadline=deadline)

    async def _look(self, steps: Callable[[], Steps[T]], *, deadline: float) -> T:
        await self._make_tables(deadline)
        return await self._wire.look(steps, deadline=deadline)

    async def _decide(self, steps: Callable[[], Steps[Decided[T]]], *, deadline: float) -> T:
        """Do the steps in a transaction, then let those of ours ask whom they have woken."""
        await self._make_tables(deadline)
        decided = await self._wire.transact(steps, deadline=deadline)
        self._polling.ring_all(decided.woken)
        return decided.answer

    async def _make_tables(self, deadline: float) -> None:
        """Know that the tables are there and ours, and make them if they are not."""
        if self._has_tables:
            return
        rows = await self._wire.ask(self._tables.look(), deadline=deadline)
        if not self._tables.are_there(rows, where=self.location):
            for statement in self._tables.definition():
                await self._wire.ask(Ask(statement, ()), deadline=deadline)
        self._has_tables = True

    # -- closing -----------------------------------------------------------------------

    async def disown(self, client: str, *, deadline: float) -> None:
        """See the protocol; here what is held ends by its ttl in any case."""
        del client, deadline

    async def aclose(self) -> None:
        """See the protocol."""
        await self._wire.close()

    def after_fork_in_child(self) -> None:
        """Let the child begin with nothing of the parent's."""
        self._wire.after_fork_in_child()
        self._polling.after_fork_in_child()


def _checked(connections: int | str) -> int:
    try:
        found = int(connections)
    except ValueError:
        found = 0
    if not 0 < found <= MOST_CONNECTIONS:
        raise ConfigurationError(
            f"connections={connections!r}: a number from 1 to {MOST_CONNECTIONS} is accepted"
        )
    return found
