"""`postgresql://…?mode=advisory`: locks of the server's own, carried by one connection."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from psycopg import Error

from holdfast.backends.postgresql import advisory_findings, refusals
from holdfast.backends.postgresql._async.wire import AsyncPostgresqlWire
from holdfast.backends.postgresql.addresses import ACCEPTED, address_of_url
from holdfast.backends.postgresql.advisory import OLDEST, PostgresqlStatements
from holdfast.backends.postgresql.greeting import GREETING, Greeting
from holdfast.backends.postgresql.link.aio import Link
from holdfast.backends.postgresql.session import pinning
from holdfast.backends.sql._async.advisory import AsyncAdvisoryBackend
from holdfast.backends.sql._async.advisory_connection import AsyncAdvisoryConnection
from holdfast.backends.sql.ringing import NoPush
from holdfast.backends.sql.steps import Ask
from holdfast.core.naming import checked_namespace
from holdfast.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.errors import LockError
    from holdfast.model import Finding
    from holdfast.runtime.clock import Clock


class AsyncPostgresqlAdvisoryBackend(AsyncAdvisoryBackend):
    """Advisory locks of one database."""

    options = ACCEPTED

    def __init__(
        self,
        *,
        url: str,
        location: str,
        clock: Clock,
        namespace: str = "holdfast",
        **options: object,
    ) -> None:
        self._address = address_of_url(url, where=location, options=options)
        self._is_pooled = False
        statements = PostgresqlStatements(namespace=checked_namespace(namespace))
        super().__init__(statements, location=location, clock=clock)

    async def _connect(self, ttl: float, deadline: float) -> AsyncAdvisoryConnection:
        link = Link(clock=self._clock, where=self.location)
        try:
            await link.connect(self._address, deadline=deadline)
            [[row]] = await link.exchange([Ask(GREETING)], deadline=deadline)
            greeting = Greeting(link.connection.backend_pid, *row)
            self._refuse_if_unfit(greeting)
            if greeting.is_pooled:
                # Before anything is set: what is said to a session that is given away reaches
                # somebody else's.
                await self._prove_session(deadline)
            self._is_pooled = greeting.is_pooled
            settings = [pinning(greeting.version), self._statements.last_for(ttl)]
            await link.exchange(settings, deadline=deadline)
            return AsyncAdvisoryConnection(link, number=greeting.pid, told=self._sentence)
        except (Error, OSError) as error:
            link.close()
            raise refusals.unreachable(error, where=self.location) from error
        except BaseException:
            link.close()
            raise

    def _sentence(self, error: Exception) -> LockError:
        return refusals.refused(error, where=self.location)

    def _refuse_if_unfit(self, greeting: Greeting) -> None:
        if greeting.version < OLDEST * 10_000:
            raise ConfigurationError(
                f"{self.location}: mode=advisory needs PostgreSQL {OLDEST} or newer, which ends "
                "the session of a holder that fell silent; leave it out"
            )
        if greeting.is_standby:
            raise ConfigurationError(
                f"{self.location} is a standby, where advisory locks keep nobody out but its own "
                "clients; give the primary's address"
            )

    async def _prove_session(self, deadline: float) -> None:
        """Raise unless what stands between keeps one session of the server for each of ours.

        A notification reaches a connection that is idle only if the server's session is its own.
        """
        wire = AsyncPostgresqlWire(self._address, clock=self._clock, most=1)
        channel = f"holdfast_session_{os.urandom(8).hex()}"
        try:
            subscription = await wire.subscribe(channel, _ignore, deadline=deadline)
            await subscription.close()
        except NoPush as error:
            raise ConfigurationError(
                f"{self.location} is behind a pooler in transaction mode, which gives the session "
                "that carries an advisory lock to others: use a pooler in session mode, give the "
                "server's own address, or leave mode=advisory out"
            ) from error
        finally:
            await wire.close()

    async def diagnose(self, *, deadline: float) -> Sequence[Finding]:
        """See the protocol."""
        rows = await self._by_session(
            lambda session: session.look(advisory_findings.SETTINGS, deadline=deadline), deadline
        )
        return advisory_findings.findings(
            dict(rows), ttl=self._ttl, is_pooled=self._is_pooled, where=self.location
        )


def _ignore(_message: str) -> None:
    """Nothing is rung there but the proof."""
