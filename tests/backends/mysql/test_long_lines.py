"""Ten thousand may wait: of a line only those are read who can decide."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from backends.mysql import each_server
from long_lines import LongLines

from lockfast.backends.mysql._sync.backend import MysqlBackend
from lockfast.backends.mysql.schema import CLAIM
from lockfast.challenge.servers.mysql_compatible import MysqlCompatibleServer
from lockfast.runtime.clock import Clock

MORE = f"""
INSERT INTO lockfast_place (`key`, arrived, {", ".join(CLAIM)})
SELECT `key`, arrived + seq, CONCAT('more ', seq), CONCAT('client of ', seq),
    {", ".join([*CLAIM][2:])}
FROM lockfast_place, JSON_TABLE(%s, '$[*]' COLUMNS (seq INT PATH '$')) AS further
WHERE `key` = %s AND arrived = (SELECT MAX(arrived) FROM lockfast_place WHERE `key` = %s)
"""


class CountedRows:
    """See `Counted`; it counts rows, be they read by an index or not."""

    def __init__(self, server: MysqlCompatibleServer) -> None:
        self._server = server
        self.backend = MysqlBackend(url=server.url(), location="here", clock=Clock())

    def lengthen(self, name: str, by: int) -> None:
        key = f"lockfast\0{name}".encode()
        self._server.run(MORE, json.dumps([*range(1, by + 1)]), key, key, database="test")
        count = "UPDATE lockfast_door SET crowd = crowd + %s WHERE `key` = %s"
        self._server.run(count, by, key, database="test")

    def read(self) -> float:
        rows = self._server.run("SHOW GLOBAL STATUS LIKE 'Handler\\_read\\_%'")
        return float(sum(int(count) for _, count in rows))


@pytest.fixture(params=each_server.KINDS)
def store(request) -> Iterator[CountedRows]:
    """On a server of its own: it counts for all of its clients together."""
    with request.param() as server:
        server.run("CREATE DATABASE test")
        one = CountedRows(server)
        yield one
        one.backend.close()


class TestLongLines(LongLines):
    """Of a line only those are read who can decide."""
