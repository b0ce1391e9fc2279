# Generated from src/holdfast/backends/mysql/_async/backend.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""The verbs on MySQL and MariaDB: one statement if nobody else is there, else a transaction."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from holdfast._sync.backend import Backend
from holdfast.backends.mysql import findings
from holdfast.backends.mysql._sync.wire import MysqlWire
from holdfast.backends.mysql.addresses import OPTIONS, address_of_url
from holdfast.backends.mysql.dialect import MysqlDialect
from holdfast.backends.mysql.schema import Tables
from holdfast.backends.mysql.statements import Statements, is_done, token_in
from holdfast.backends.sql._sync.polling import Polling
from holdfast.backends.sql._sync.wire import MOST
from holdfast.backends.sql.lines import Sight
from holdfast.backends.sql.parties import as_stored, party_key
from holdfast.backends.sql.steps import Ask, side_by_side
from holdfast.backends.sql.verbs import Verbs
from holdfast.core.naming import checked_namespace, name_of, storage_key
from holdfast.errors import ConfigurationError
from holdfast.model import Capabilities, Grant, TokenQuality
from holdfast.runtime import forking

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from holdfast.backends.sql.steps import Rows, Steps
    from holdfast.backends.sql.verbs import Arrived, Decided
    from holdfast.model import Claim, Finding, Held, Holder, Inspection, Renewal
    from holdfast.runtime.clock import Clock

T = TypeVar("T")

MOST_CONNECTIONS = 100

PAGE = 100
"""So many names are inspected in one round trip."""


class MysqlBackend(Backend):
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
        self._wire = MysqlWire(address, clock=clock, most=_checked(connections))
        self._dialect = MysqlDialect(self._tables)
        self._statements = Statements(self._tables, namespace=self._namespace)
        self._verbs = Verbs(self._dialect, namespace=self._namespace)
        self._polling = Polling(self._look_at_lines, clock)
        self._has_tables = False
        forking.forget_in_child(self)

    # -- taking and giving back --------------------------------------------------------

    def try_acquire(self, claim: Claim, *, deadline: float) -> Grant | Held:
        """See the protocol."""
        stored = as_stored(claim)
        arrived = self._polling.arrival_of(claim)
        decided: Arrived | None = None
        if arrived is None:
            rows = self._ask(self._statements.take(stored), deadline=deadline)
            if (token := token_in(rows)) is not None:
                return Grant(claim, token, claim.ttl)
        else:
            known = arrived
            decided = self._look(
                lambda: self._verbs.still_waiting(stored, arrived=known), deadline=deadline
            )
        if decided is None:
            decided = self._arrive(stored, arrived, deadline=deadline)
        return self._answer(claim, decided)

    def _arrive(self, stored: Claim, arrived: int | None, *, deadline: float) -> Arrived:
        decided = self._wire.transact(
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

    def renew(self, grants: Sequence[Grant], *, deadline: float) -> Sequence[Renewal]:
        """See the protocol."""
        claims = [as_stored(one.claim) for one in grants]
        return self._decide(lambda: self._verbs.renew(claims), deadline=deadline)

    def hand_over(self, grant: Grant, *, deadline: float) -> Renewal:
        """See the protocol."""
        claim = as_stored(grant.claim)
        return self._decide(lambda: self._verbs.hand_over(claim), deadline=deadline)

    def release(self, grant: Grant, *, deadline: float, tombstone: bool) -> bool:
        """See the protocol."""
        claim = as_stored(grant.claim)
        if not tombstone:
            rows = self._ask(self._statements.release(claim), deadline=deadline)
            if is_done(rows):
                return True
        return self._decide(
            lambda: self._verbs.release(claim, tombstone=tombstone), deadline=deadline
        )

    def withdraw(self, claim: Claim, *, deadline: float, tombstone: bool) -> None:
        """See the protocol."""
        stored, arrived = as_stored(claim), self._polling.arrival_of(claim)
        try:
            self._decide(
                lambda: self._verbs.withdraw(stored, arrived=arrived, tombstone=tombstone),
                deadline=deadline,
            )
        finally:
            self._polling.forget(claim)

    def break_(
        self, name: str, *, token: int | None = None, owner: str | None = None, deadline: float
    ) -> tuple[Holder, ...]:
        """See the protocol."""
        party = None if owner is None else party_key(owner)
        return self._decide(
            lambda: self._verbs.break_(name, token=token, party=party), deadline=deadline
        )

    # -- waiting -----------------------------------------------------------------------

    def wait(self, claim: Claim, *, deadline: float) -> None:
        """See the protocol."""
        self._polling.wait(claim, deadline=deadline)

    def rouse(self, claim: Claim) -> None:
        """See the protocol."""
        self._polling.ring(claim.id)

    def _look_at_lines(self, clients: Collection[str], deadline: float) -> list[Sight]:
        rows = self._ask(self._statements.lines(clients), deadline=deadline)
        return [Sight(str(row[0]), bool(row[1]), bool(row[2])) for row in rows]

    # -- looking -----------------------------------------------------------------------

    def inspect(self, name: str, *, deadline: float) -> Inspection:
        """See the protocol."""
        return self._look(lambda: self._verbs.inspect(name), deadline=deadline)

    def survey(self, prefix: str, *, deadline: float) -> Iterator[Inspection]:
        """See the protocol; the deadline is for each request, as there may be many."""
        patience = deadline - self._clock.now()
        start = storage_key(self._namespace, prefix)
        keys = self._ask(self._dialect.names_in_use(start), deadline=deadline)
        names = [name_of(bytes(key)) for (key,) in keys]
        for i in range(0, len(names), PAGE):
            page = names[i : i + PAGE]
            found = self._look(
                lambda page=page: side_by_side([self._verbs.inspect(one) for one in page]),  # type: ignore[misc]
                deadline=self._clock.now() + patience,
            )
            for one in found:
                if one.is_in_use:
                    yield one

    def diagnose(self, *, deadline: float) -> Sequence[Finding]:
        """See the protocol."""
        return findings.findings(self._ask(findings.SETTINGS, deadline=deadline))

    # -- asking ------------------------------------------------------------------------

    def _ask(self, request: Ask, *, deadline: float) -> Rows:
        self._make_tables(deadline)
        return self._wire.ask(request, deadline=deadline)

    def _look(self, steps: Callable[[], Steps[T]], *, deadline: float) -> T:
        self._make_tables(deadline)
        return self._wire.look(steps, deadline=deadline)

    def _decide(self, steps: Callable[[], Steps[Decided[T]]], *, deadline: float) -> T:
        """Do the steps in a transaction, then let those of ours ask whom they have woken."""
        self._make_tables(deadline)
        decided = self._wire.transact(steps, deadline=deadline)
        self._polling.ring_all(decided.woken)
        return decided.answer

    def _make_tables(self, deadline: float) -> None:
        """Know that the tables are there and ours, and make them if they are not."""
        if self._has_tables:
            return
        rows = self._wire.ask(self._tables.look(), deadline=deadline)
        if not self._tables.are_there(rows, where=self.location):
            for statement in self._tables.definition():
                self._wire.ask(Ask(statement, ()), deadline=deadline)
        self._has_tables = True

    # -- closing -----------------------------------------------------------------------

    def disown(self, client: str, *, deadline: float) -> None:
        """See the protocol; here what is held ends by its ttl in any case."""
        del client, deadline

    def close(self) -> None:
        """See the protocol."""
        self._wire.close()

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
