"""SQL servers for the benchmark, started as in the tests, that count statements and clients."""

from __future__ import annotations

import re
import time

from lockfast_challenge.servers.mysql import MariadbServer, MysqlServer
from lockfast_challenge.servers.postgresql import PostgresqlServer

__all__ = ["Mariadb", "Mysql", "Postgresql"]

_LOGGED = re.compile(r"LOG:  (?:statement|execute) ")


class Postgresql(PostgresqlServer):
    """PostgreSQL that waits for its disk at every commit."""

    def __init__(self) -> None:
        super().__init__(settings={"max_connections": "200", "shared_buffers": "64MB"})

    @property
    def version(self) -> str:
        """The version that the server reports."""
        [[said]] = self.run("SHOW server_version")
        return f"PostgreSQL {said.partition(' ')[0]}"

    def count_statements(self) -> None:
        """Start counting, for clients that connect from now on."""
        self.run("ALTER SYSTEM SET log_statement = 'all'")
        self.run("SELECT pg_reload_conf()")
        while self.run("SHOW log_statement") != [("all",)]:
            time.sleep(0.01)

    def statements(self) -> int:
        """Return how many statements clients have sent since counting started."""
        text = (self.directory / "log").read_text(errors="replace")
        return len(_LOGGED.findall(text))

    def connections(self) -> int:
        """Return how many clients are connected, without this query's own connection."""
        [[count]] = self.run("""
            SELECT count(*) FROM pg_stat_activity
            WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
        """)
        return int(count)


class Mariadb(MariadbServer):
    """MariaDB that waits for its disk at every commit."""

    def __init__(self) -> None:
        super().__init__("--max-connections=200")

    @property
    def version(self) -> str:
        """The version that the server reports."""
        [[said]] = self.run("SELECT VERSION()")
        return f"MariaDB {said.partition('-')[0]}"

    def count_statements(self) -> None:
        """Do nothing, because the server always counts statements."""

    def statements(self) -> int:
        """Return how many statements clients have sent."""
        [[_, count]] = self.run("SHOW GLOBAL STATUS LIKE 'Questions'")
        return int(count)

    def connections(self) -> int:
        """Return how many clients are connected, without this query's own connection."""
        [[_, count]] = self.run("SHOW GLOBAL STATUS LIKE 'Threads_connected'")
        return int(count) - 1


class Mysql(MysqlServer):
    """MySQL that waits for its disk at every commit."""

    @property
    def version(self) -> str:
        """The version that the server reports."""
        [[said]] = self.run("SELECT VERSION()")
        return f"MySQL {said.partition('-')[0]}"

    def connections(self) -> int:
        """Return how many clients are connected, without this query's own connection."""
        [[_, count]] = self.run("SHOW GLOBAL STATUS LIKE 'Threads_connected'")
        return int(count) - 1
