"""The whole contract on a real MySQL, in both flavours."""

from __future__ import annotations

from backends.mysql import test_contract as on_mariadb
from servers import mysql


class TestAsync(on_mariadb.TestAsync):
    shared_server = staticmethod(mysql.shared_server)


class TestSync(on_mariadb.TestSync):
    shared_server = staticmethod(mysql.shared_server)
