"""One PostgreSQL server that syncs every commit to disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from lockfast_challenge.deployments.single_server import SqlServer
from lockfast_challenge.servers.postgresql import PostgresqlServer, ShiftedPostgresql
from lockfast_challenge.servers.shifted_clock import clock_lacks

if TYPE_CHECKING:
    from collections.abc import Sequence


class Postgresql(SqlServer[PostgresqlServer]):
    """`postgresql://`, on one server."""

    store = "postgresql"
    documented: ClassVar[dict[str, str]] = {
        "server-emptied": "A standby that was not synchronous lacks the last commits when it is "
        "promoted, and with them locks that are held",
        "clock-jump": "A server clock that jumps ahead ends leases early, since to the server "
        "their time is over",
    }

    def __init__(self, *, ttl: float) -> None:
        super().__init__(ttl=ttl)
        self.clock_lacks: str = clock_lacks()
        self.server: PostgresqlServer | ShiftedPostgresql = (
            PostgresqlServer() if self.clock_lacks else ShiftedPostgresql()
        )

    def run(self, statement: str) -> None:
        """Run a statement."""
        self.server.run(statement)

    def url_at(self, addresses: Sequence[str]) -> str:
        """Return the URL of the server."""
        return f"postgresql://postgres@{addresses[0]}/postgres"
