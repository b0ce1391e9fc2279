"""Real MariaDB servers. It refuses to be run by root, and becomes `daemon` then."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from lockfast.challenge.servers.mysql_compatible import MysqlCompatibleServer
from lockfast.challenge.servers.shifted_clock import ShiftedClock
from lockfast.challenge.servers.starting import CannotStart, downloaded, run_as

if TYPE_CHECKING:
    from collections.abc import Sequence

SYSTEM_TABLES = ("system_tables", "performance_tables", "system_tables_data")
"""What `mariadb-install-db` lets the server read, but for the help texts. That script itself
needs a program of the full package, which would also bring a daemon."""

SYSTEM_TABLES_AT = ("share/mariadb/mariadb_{}.sql", "share/mysql/mysql_{}.sql")
"""Where these are: since 11, and before."""

BEGINNING = "CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket = NULL;\n"


class MariadbServer(MysqlCompatibleServer):
    """One server; what was committed outlives its process."""

    kind = scheme = "mariadb"
    packages: ClassVar[dict[str, str]] = {"mariadbd": "mariadb-server-core"}
    account = "daemon"
    small: ClassVar[Sequence[str]] = (
        # Not a hundred megabytes of log for each server.
        *("--innodb-log-file-size=4M", "--innodb-buffer-pool-size=16M", "--key-buffer-size=1M"),
        "--performance-schema=OFF",
    )

    @classmethod
    def program(cls) -> Sequence[str]:
        """Return the server on the PATH."""
        return ["mariadbd", "--no-defaults"]

    @classmethod
    def installed_in(cls) -> Path:
        """Return where its files are."""
        return Path("/usr")

    @classmethod
    def build(cls, data: Path) -> None:
        """Make a data directory, with a root who has no password."""
        server = shlex.join(
            [
                *(*cls.program(), "--bootstrap", f"--datadir={data}", f"--tmpdir={data}"),
                *("--enforce-storage-engine=", "--skip-log-bin", *cls.small),
            ]
        )
        tables = shlex.join(map(str, system_tables(cls.installed_in())))
        say = f"{{ printf %s {shlex.quote(BEGINNING)}; cat {tables}; }}"
        run_as(cls.account, "sh", "-c", f"mkdir {data} && {say} | {server}")


class NewerMariadbServer(MariadbServer):
    """One of the release that `tools/newer_servers.py` has downloaded."""

    kind = "newer-mariadb"
    packages: ClassVar[dict[str, str]] = {}
    account = ""

    @classmethod
    def program(cls) -> Sequence[str]:
        """Return the downloaded server."""
        found = downloaded("mariadbd")
        if found is None:
            raise CannotStart("a newer MariaDB cannot be found: run tools/newer_servers.py")
        return cls.in_folder(found)

    @classmethod
    def installed_in(cls) -> Path:
        """Return where its files are."""
        return Path(cls.program()[0]).parents[1] / "root/usr"


def system_tables(installed_in: Path) -> list[Path]:
    """Return the files that describe the system tables of a version."""
    for place in SYSTEM_TABLES_AT:
        files = [installed_in / place.format(one) for one in SYSTEM_TABLES]
        if all(one.exists() for one in files):
            return files
    places = " or ".join(str(installed_in / one) for one in SYSTEM_TABLES_AT)
    raise CannotStart(f"MariaDB's {places} cannot be found")


class ShiftedMariadb(ShiftedClock, MariadbServer):
    """A MariaDB server, and its clock."""
