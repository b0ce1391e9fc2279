"""One MariaDB server that waits for its disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from lockfast.challenge.deployments.mysql import Mysql
from lockfast.challenge.servers.mariadb import MariadbServer, ShiftedMariadb

if TYPE_CHECKING:
    from lockfast.challenge.servers.mysql_compatible import MysqlCompatibleServer


class Mariadb(Mysql):
    """`mariadb://`."""

    store = "mariadb"
    plain: ClassVar[type[MysqlCompatibleServer]] = MariadbServer
    shifted: ClassVar[type[MysqlCompatibleServer]] = ShiftedMariadb
