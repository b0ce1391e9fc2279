"""The servers for a file whose tests run on both MariaDB and MySQL.

    from backends.mysql import each_server

    server = each_server.server

Both reply to one set of statements, so a file belongs on both if a statement, a reply or an error
text of the server decides what happens. The others run on MariaDB alone.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from servers import mariadb, mysql

from lockfast_challenge.servers.mysql import MariadbServer, MysqlCompatibleServer, MysqlServer

KINDS = [pytest.param(one, id=one.kind) for one in (MariadbServer, MysqlServer)]
"""The classes of both servers, for a test that needs a server of its own."""


@pytest.fixture(params=[mariadb, mysql], ids=["mariadb", "mysql"])
def server(request) -> MysqlCompatibleServer:
    """The MariaDB or MySQL server that all tests of this run share."""
    one = request.param.shared_server()
    one.run("CREATE DATABASE IF NOT EXISTS test")
    return one


@pytest.fixture(scope="module", params=KINDS)
def module_server(request) -> Iterator[MysqlCompatibleServer]:
    """A server that the tests of the file may break."""
    with request.param() as one:
        one.run("CREATE DATABASE test")
        yield one
