"""A real PgBouncer before a PostgreSQL server, in transaction mode unless told otherwise."""

from __future__ import annotations

import psycopg

from lockfast.challenge.servers.postgresql import PostgresqlServer
from lockfast.challenge.servers.starting import Server

SETTINGS = """\
[databases]
* = host=127.0.0.1 port={server} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
pool_mode = {mode}
default_pool_size = {size}
max_client_conn = 500
auth_type = any
logfile =
"""


class PgBouncer(Server):
    """One pooler, by which its clients share a few connections of the server."""

    kind = "pgbouncer"
    account = "postgres"

    def __init__(
        self, server: PostgresqlServer, *, mode: str = "transaction", size: int = 10
    ) -> None:
        super().__init__()
        self.server = server
        self._mode = mode
        self._size = size

    def url(self, database: str = "postgres") -> str:
        """Return the URL of a database behind it."""
        return f"postgresql://postgres@{self.address}/{database}"

    def command(self) -> list[str]:
        """Return what is run, with its settings written down."""
        path = self.directory / "pgbouncer.ini"
        path.write_text(
            SETTINGS.format(
                server=self.server.port, port=self.port, mode=self._mode, size=self._size
            )
        )
        return ["/usr/sbin/pgbouncer", str(path)]

    def serves(self) -> bool:
        """Whether somebody gets through to the server."""
        try:
            psycopg.connect(self.url(), connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True
