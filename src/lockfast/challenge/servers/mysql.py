"""Real MySQL servers, of Oracle's own make; MariaDB has its own file."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from lockfast.challenge.servers.mysql_compatible import MysqlCompatibleServer
from lockfast.challenge.servers.shifted_clock import ShiftedClock
from lockfast.challenge.servers.starting import CannotStart, downloaded, run_as

if TYPE_CHECKING:
    from collections.abc import Sequence

QUICKLY = (
    # A crash while the first data are made leaves nothing that anybody would use.
    *("--innodb-flush-method=nosync", "--innodb-flush-log-at-trx-commit=0"),
    "--innodb-doublewrite=OFF",
)


class MysqlServer(MysqlCompatibleServer):
    """One server; what was committed outlives its process."""

    kind = "mysql"
    small: ClassVar[Sequence[str]] = (
        # A smaller log makes the first data wait for checkpoints.
        *("--innodb-redo-log-capacity=32M", "--innodb-buffer-pool-size=32M"),
        *("--performance-schema=OFF", "--mysqlx=OFF"),
    )

    @classmethod
    def program(cls) -> Sequence[str]:
        """Return the downloaded server, else the one on the PATH.

        MariaDB installs itself under this name too, and is not what was asked for.
        """
        no_files = "--secure-file-priv=NULL"  # the usual directory for them need not be there
        if here := downloaded("mysqld"):
            return [*cls.in_folder(here), no_files]
        installed = shutil.which("mysqld")
        if installed is None or "mariadb" in Path(installed).resolve().name:
            raise CannotStart(
                "MySQL cannot be found: install the package mysql-server-core (in Debian, only sid "
                "has it), or run tools/newer_servers.py in a checkout of Lockfast"
            )
        is_root = ["--user=root"] if os.geteuid() == 0 else []
        return [installed, "--no-defaults", no_files, *is_root]

    @classmethod
    def build(cls, data: Path) -> None:
        """Make a data directory, with a root who has no password."""
        run_as(
            cls.account,
            *(*cls.program(), "--initialize-insecure", f"--datadir={data}"),
            *("--skip-log-bin", *cls.small, *QUICKLY),
        )


class ShiftedMysql(ShiftedClock, MysqlServer):
    """A MySQL server, and its clock."""
