"""What the SQL servers have in common: tables that stay there when their rows are lost."""

from __future__ import annotations

from typing import TypeVar

from lockfast import Locks
from lockfast.challenge.deployments.one_server import OneServer
from lockfast.challenge.servers.starting import Server

S = TypeVar("S", bound=Server)

TABLES = ("lockfast_door", "lockfast_place")


class SqlServer(OneServer[S]):
    """A server that was emptied still has its tables, as one that was restored from a backup."""

    def start_servers(self) -> None:
        """Return once it serves, and the tables are there."""
        super().start_servers()
        self.make_database()
        with Locks(self.url, request_timeout=20.0) as locks:
            locks.lock("challenge").acquire().release()

    def make_database(self) -> None:
        """Make the database that the URL names, where it is not there."""

    def run(self, statement: str) -> None:
        """Run a statement in the database that the URL names."""
        raise NotImplementedError

    def end_without_data(self) -> None:
        """Delete all rows, and kill it before many have come by."""
        for table in TABLES:
            self.run(f"DELETE FROM {table}")  # noqa: S608 - our own tables
        self.server.kill()
