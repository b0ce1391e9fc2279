"""MySQL and MariaDB: one server that syncs every commit to disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from lockfast_challenge.deployments.single_server import TABLES, SqlServer
from lockfast_challenge.outcome import Exemption
from lockfast_challenge.servers.mysql import (
    MariadbServer,
    MysqlCompatibleServer,
    MysqlServer,
    ShiftedMariadb,
    ShiftedMysql,
)
from lockfast_challenge.servers.shifted_clock import clock_lacks

if TYPE_CHECKING:
    from collections.abc import Sequence

MYSQL_FORGETS = "A database that is restored from a backup has forgotten locks that are held"
TOKENS_GO_BACK = (
    "If it loses data and its clock is set back by more than the time since, tokens can go back"
)
CLOCK_JUMPS = "A server clock that jumps ahead ends leases early"


class Mysql(SqlServer[MysqlCompatibleServer]):
    """`mysql://`, on one MySQL server."""

    store = "mysql"
    plain: ClassVar[type[MysqlCompatibleServer]] = MysqlServer
    shifted: ClassVar[type[MysqlCompatibleServer]] = ShiftedMysql
    exemptions = (
        Exemption("server-emptied", "overlap", MYSQL_FORGETS),
        Exemption("server-emptied", "token", TOKENS_GO_BACK, clock="back"),
        Exemption("clock-jump", "overlap", CLOCK_JUMPS, clock="ahead"),
    )

    def __init__(self, *, ttl: float) -> None:
        super().__init__(ttl=ttl)
        self.clock_lacks: str = clock_lacks()
        self.server: MysqlCompatibleServer = self.plain() if self.clock_lacks else self.shifted()

    def make_database(self) -> None:
        """Create the database that the URL names."""
        self.server.run("CREATE DATABASE IF NOT EXISTS challenge")

    def empty_tables(self) -> None:
        """Delete all rows while clients are locked out of both tables."""
        with self.server.connect("challenge") as connection, connection.cursor() as cursor:
            cursor.execute(f"LOCK TABLES {', '.join(f'{table} WRITE' for table in TABLES)}")
            for table in TABLES:
                cursor.execute(f"DELETE FROM {table}")  # noqa: S608 - our own tables
            cursor.execute("UNLOCK TABLES")

    def url_at(self, addresses: Sequence[str]) -> str:
        """Return the URL of the server."""
        return f"{self.store}://root@{addresses[0]}/challenge"


# MariaDB: the deployment of MySQL, on another server.


class Mariadb(Mysql):
    """`mariadb://`, on one MariaDB server."""

    store = "mariadb"
    plain: ClassVar[type[MysqlCompatibleServer]] = MariadbServer
    shifted: ClassVar[type[MysqlCompatibleServer]] = ShiftedMariadb
