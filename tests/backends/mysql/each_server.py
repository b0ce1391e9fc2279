"""A file whose tests run on MariaDB and on MySQL takes its server from here.

    from backends.mysql import each_server

    server = each_server.server

Both answer by one set of statements, so a file belongs on both where a statement, an answer or a
sentence of the server decides what happens. The others run on MariaDB alone.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from servers import mariadb, mysql

from lockfast.challenge.servers.mariadb import MariadbServer
from lockfast.challenge.servers.mysql import MysqlServer
from lockfast.challenge.servers.mysql_compatible import MysqlCompatibleServer

KINDS = [pytest.param(one, id=one.kind) for one in (MariadbServer, MysqlServer)]
"""Classes: for a test that needs a server of its own."""


@pytest.fixture(params=[mariadb, mysql], ids=["mariadb", "mysql"])
def server(request) -> MysqlCompatibleServer:
    """Give the server that all tests of this run share."""
    one = request.param.shared_server()
    one.run("CREATE DATABASE IF NOT EXISTS test")
    return one


@pytest.fixture(scope="module", params=KINDS)
def module_server(request) -> Iterator[MysqlCompatibleServer]:
    """Give a server that the tests of the file may break."""
    with request.param() as one:
        one.run("CREATE DATABASE test")
        yield one
