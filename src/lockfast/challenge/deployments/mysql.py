"""One MySQL server that waits for its disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from lockfast.challenge.deployments.sql import SqlServer
from lockfast.challenge.servers.mysql import MysqlServer, ShiftedMysql
from lockfast.challenge.servers.mysql_compatible import MysqlCompatibleServer
from lockfast.challenge.servers.shifted_clock import clock_lacks

if TYPE_CHECKING:
    from collections.abc import Sequence


class Mysql(SqlServer[MysqlCompatibleServer]):
    """`mysql://`, on MySQL itself."""

    store = "mysql"
    plain: ClassVar[type[MysqlCompatibleServer]] = MysqlServer
    shifted: ClassVar[type[MysqlCompatibleServer]] = ShiftedMysql
    documented: ClassVar[dict[str, str]] = {
        "server-emptied": "A replica that lacks the last commits has not heard of the leases in "
        "them",
        "clock-jump": "A server clock that jumps ahead ends leases early",
    }

    def __init__(self, *, ttl: float) -> None:
        super().__init__(ttl=ttl)
        self.clock_lacks: str = clock_lacks()
        self.server: MysqlCompatibleServer = self.plain() if self.clock_lacks else self.shifted()

    def make_database(self) -> None:
        """Make the database that the URL names."""
        self.server.run("CREATE DATABASE IF NOT EXISTS challenge")

    def run(self, statement: str) -> None:
        """Run a statement."""
        self.server.run(statement, database="challenge")

    def url_at(self, addresses: Sequence[str]) -> str:
        """Return its URL."""
        return f"{self.store}://root@{addresses[0]}/challenge"
