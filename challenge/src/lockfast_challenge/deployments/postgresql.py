"""One PostgreSQL server that syncs every commit to disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockfast_challenge.deployments.single_server import TABLES, SqlServer
from lockfast_challenge.outcome import Exemption
from lockfast_challenge.servers.postgresql import PostgresqlServer, ShiftedPostgresql
from lockfast_challenge.servers.shifted_clock import clock_lacks

if TYPE_CHECKING:
    from collections.abc import Sequence

POSTGRESQL_FORGETS = "A database that is restored from a backup has forgotten locks that are held"
TOKENS_GO_BACK = "If it loses data and its clock is set back by more than the time since, they can"
CLOCK_JUMPS = (
    "A server clock that jumps ahead ends leases early, since to the server their time is over"
)


class Postgresql(SqlServer[PostgresqlServer]):
    """`postgresql://`, on one server."""

    store = "postgresql"
    exemptions = (
        Exemption("server-emptied", "overlap", POSTGRESQL_FORGETS),
        Exemption("server-emptied", "token", TOKENS_GO_BACK, clock="back"),
        Exemption("clock-jump", "overlap", CLOCK_JUMPS, clock="ahead"),
    )

    def __init__(self, *, ttl: float) -> None:
        super().__init__(ttl=ttl)
        self.clock_lacks: str = clock_lacks()
        self.server: PostgresqlServer | ShiftedPostgresql = (
            PostgresqlServer() if self.clock_lacks else ShiftedPostgresql()
        )

    def empty_tables(self) -> None:
        """Delete all rows in one statement, which waits for the transactions of clients."""
        self.server.run(f"TRUNCATE {', '.join(TABLES)}")

    def url_at(self, addresses: Sequence[str]) -> str:
        """Return the URL of the server."""
        return f"postgresql://postgres@{addresses[0]}/postgres"
