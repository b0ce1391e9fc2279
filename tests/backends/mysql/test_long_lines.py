"""However many claims wait, only the entries that can decide the outcome are read."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from backends.mysql import each_server
from long_lines import LongLines

from lockfast.backends.mysql._sync.backend import MysqlBackend
from lockfast.backends.mysql.schema import CLAIM_COLUMNS
from lockfast.runtime.clock import Clock
from lockfast_challenge.servers.mysql import MysqlCompatibleServer

MORE = f"""
INSERT INTO lockfast_place (`key`, arrived, {", ".join(CLAIM_COLUMNS)})
SELECT `key`, arrived + seq, CONCAT('more ', seq), CONCAT('client of ', seq),
    {", ".join([*CLAIM_COLUMNS][2:])}
FROM lockfast_place, JSON_TABLE(%s, '$[*]' COLUMNS (seq INT PATH '$')) AS further
WHERE `key` = %s AND arrived = (SELECT MAX(arrived) FROM lockfast_place WHERE `key` = %s)
"""


class CountedRows:
    """A `Counted` store that counts rows, whether or not they are read through an index."""

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
    """A store on a server of its own, because the server counts for all its clients together."""
    with request.param() as server:
        server.run("CREATE DATABASE test")
        one = CountedRows(server)
        yield one
        one.backend.close()


class TestLongLines(LongLines):
    """Only the entries that can decide the outcome are read."""
