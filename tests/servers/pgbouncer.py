"""A real PgBouncer in front of a PostgreSQL server, in transaction mode by default."""

from __future__ import annotations

import psycopg

from lockfast_challenge.servers.postgresql import PostgresqlServer
from lockfast_challenge.servers.server import Server

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
    """A pooler through which clients share a few connections to the server."""

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
        """Return the URL of a database behind the pooler."""
        return f"postgresql://postgres@{self.address}/{database}"

    def command(self) -> list[str]:
        """Write the settings, and return the command line."""
        path = self.directory / "pgbouncer.ini"
        path.write_text(
            SETTINGS.format(
                server=self.server.port, port=self.port, mode=self._mode, size=self._size
            )
        )
        return ["/usr/sbin/pgbouncer", str(path)]

    def serves(self) -> bool:
        """Return whether a client can connect to the server through the pooler."""
        try:
            psycopg.connect(self.url(), connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True
