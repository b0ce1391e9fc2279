"""Ten thousand may wait: of a line only those are read who can decide."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from long_lines import cost_of_a_hand_over
from servers.postgresql import PostgresqlServer

from holdfast.backends.postgresql._sync.backend import PostgresqlBackend
from holdfast.backends.postgresql.schema import CLAIM
from holdfast.runtime.clock import Clock

SETTINGS = {"shared_preload_libraries": "pg_stat_statements", "autovacuum": "off"}

MORE = f"""
INSERT INTO holdfast_place (key, arrived, {", ".join(CLAIM)})
SELECT key, arrived + n, 'more ' || n, 'client of ' || n, {", ".join([*CLAIM][2:])}
FROM holdfast_place, generate_series(1, %s) AS n
WHERE key = %s AND arrived = (SELECT max(arrived) FROM holdfast_place WHERE key = %s)
"""
PAGES = """
SELECT coalesce(sum(shared_blks_hit + shared_blks_read), 0)::float8 FROM pg_stat_statements
WHERE userid = 'app'::regrole
"""


class CountedPages:
    """See `Counted`; it counts pages, of the tables and of their indexes."""

    def __init__(self, server: PostgresqlServer) -> None:
        self._server = server
        url = server.url(user="app")
        self.backend = PostgresqlBackend(url=url, location="here", clock=Clock(), connections=1)

    def lengthen(self, name: str, by: int) -> None:
        key = f"holdfast\0{name}".encode()
        self._server.run(MORE, by, key, key)
        self._server.run("UPDATE holdfast_door SET crowd = crowd + %s WHERE key = %s", by, key)

    def read(self) -> float:
        return float(self._server.run(PAGES)[0][0])


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresqlServer]:
    """A server that counts the pages which a statement touches, and whose tables stay young."""
    with PostgresqlServer(settings=SETTINGS) as one:
        one.run("CREATE EXTENSION pg_stat_statements")
        one.run("CREATE ROLE app LOGIN SUPERUSER")
        yield one


@pytest.fixture
def store(server) -> Iterator[CountedPages]:
    one = CountedPages(server)
    yield one
    one.backend.close()
    server.run("DROP TABLE holdfast_door, holdfast_place")


def test_a_hand_over_costs_the_same_however_many_wait(store):
    few, many, very_many = (cost_of_a_hand_over(store, one) for one in (10, 1000, 10_000))

    assert many <= 1.2 * few
    assert very_many <= 1.2 * min(few, many)
