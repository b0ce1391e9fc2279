"""The way to a PostgreSQL server, and what hears its notifications."""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg import Error

from lockfast.backends.postgresql import refusals
from lockfast.backends.postgresql.greeting import GREETING, Greeting
from lockfast.backends.postgresql.link.aio import Link
from lockfast.backends.postgresql.session import FRAMING, framing_where_shared, pinning
from lockfast.backends.postgresql.subscription.aio import Subscription
from lockfast.backends.sql._async.wire import MOST, AsyncWire
from lockfast.backends.sql.refusals import no_time
from lockfast.backends.sql.ringing import NoPush
from lockfast.backends.sql.steps import Ask

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockfast.backends.postgresql.addresses import Address
    from lockfast.backends.sql.round_trips import Framing
    from lockfast.runtime.clock import Clock

DRIVERS_ERRORS = (Error, OSError)


class AsyncPostgresqlWire(AsyncWire[Link]):
    """The connections to one server; `greeting` is what it said of itself last."""

    room: int | None = None
    """How many there may be at once, where somebody lends them."""

    def __init__(self, address: Address, *, clock: Clock, most: int = MOST) -> None:
        super().__init__(
            where=address.where,
            refusals=refusals,
            errors=DRIVERS_ERRORS,
            framing=FRAMING,
            clock=clock,
            most=most,
        )
        self.greeting: Greeting | None = None
        self._where_shared = framing_where_shared(0)
        self._address = address

    def _unconnected(self) -> Link:
        return Link(clock=self._clock, where=self.where)

    async def _connect(self, link: Link, deadline: float) -> None:
        if deadline <= self._clock.now():
            raise no_time(where=self.where)
        try:
            await link.connect(self._address, deadline=deadline)
            if link.is_lent and self.greeting is not None:
                return  # once is enough, where nothing is prepared
            # Until it is known to be ours, nothing may outlive the transaction. That stays open
            # until the next round trip, which a pooler in statement mode refuses.
            shared = self._where_shared
            asked = [*shared.begin, Ask(GREETING)]
            [*_, [row]] = await link.exchange(asked, deadline=deadline)
            greeting = Greeting(link.connection.backend_pid, *row)
            is_ours = not (greeting.is_pooled or link.is_lent)
            pinned = [pinning(greeting.version)] if is_ours else []
            await link.exchange([*shared.commit, *pinned], deadline=deadline)
            self.greeting = greeting
            self._where_shared = framing_where_shared(greeting.version)
            if is_ours:
                link.prepared = set()
        except DRIVERS_ERRORS as error:
            raise refusals.unreachable(error, where=self.where) from error

    def _framing_of(self, link: Link) -> Framing:
        # One on which nothing may be prepared is not ours alone.
        return self._where_shared if link.prepared is None else FRAMING

    def _may_repeat(self, error: Exception, link: Link) -> bool:
        if refusals.code_of(error) in refusals.FORGOTTEN and link.prepared is not None:
            link.prepared = None  # a pooler that did not look like one
            return True
        if refusals.code_of(error) == refusals.READ_ONLY:
            # It stays so for this connection, though the server may write again, or another is
            # the primary by now.
            link.close()
            return True
        return super()._may_repeat(error, link)

    def _pause(self, error: Exception, attempt: int) -> float:
        longer = 50 if refusals.code_of(error) == refusals.READ_ONLY else 1
        return longer * super()._pause(error, attempt)

    # -- listening ---------------------------------------------------------------------

    async def subscribe(
        self,
        channel: str,
        hear: Callable[[str], None],
        *,
        deadline: float,
        begun: Callable[[Subscription], None] = lambda _: None,
    ) -> Subscription:
        """Return a subscription to the channel, on a connection of its own.

        Raises NoPush where notifications do not come through: behind a pooler that
        gives the connection to others between two transactions.
        """
        link = self._unconnected()
        try:
            await self._connect(link, deadline)
            subscription = Subscription(link, channel, hear, clock=self._clock)
            begun(subscription)
            await subscription.begin(deadline=deadline)
            proof = Ask("SELECT pg_notify($1, $2)", (channel, subscription.proof))
            await self.ask(proof, deadline=deadline)
            await subscription.prove(deadline=deadline)
        except DRIVERS_ERRORS as error:
            link.close()
            raise refusals.unreachable(error, where=self.where) from error
        except NoPush as error:
            link.close()
            error.is_for_good = self.greeting is not None and self.greeting.is_pooled
            raise
        except BaseException:
            link.close()
            raise
        return subscription
