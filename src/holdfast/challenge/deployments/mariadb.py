"""One MariaDB server that waits for its disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from holdfast.challenge.deployments.mysql import Mysql
from holdfast.challenge.servers.mariadb import MariadbServer
from holdfast.challenge.servers.shifted_clock import ShiftedMariadb

if TYPE_CHECKING:
    from holdfast.challenge.servers.mysql_compatible import MysqlCompatibleServer


class Mariadb(Mysql):
    """`mariadb://`."""

    store = "mariadb"
    plain: ClassVar[type[MysqlCompatibleServer]] = MariadbServer
    shifted: ClassVar[type[MysqlCompatibleServer]] = ShiftedMariadb
