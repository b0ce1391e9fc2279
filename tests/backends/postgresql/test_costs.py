"""A verb reads no more when the tables grow, even if its statements were planned before.

A session keeps its plans until the server has vacuumed or analysed the table: about once a minute,
or never if autovacuum is switched off. So the plans have to suit tables that have grown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest
from long_lines import LongLine, LongLines

from lockfast.backends.postgresql._sync.backend import PostgresqlBackend
from lockfast.backends.postgresql.schema import CLAIM_COLUMNS, PostgresqlTables
from lockfast.backends.postgresql.statements import PostgresqlStatements
from lockfast.backends.sql.batch import Operation, OperationKind
from lockfast.model import Claim
from lockfast.runtime.clock import Clock
from lockfast_challenge.servers.postgresql import PostgresqlServer

SETTINGS = {"shared_preload_libraries": "pg_stat_statements", "autovacuum": "off"}

MORE = f"""
INSERT INTO lockfast_place (key, arrived, {", ".join(CLAIM_COLUMNS)})
SELECT key, arrived + n, 'more ' || n, 'client of ' || n, {", ".join([*CLAIM_COLUMNS][2:])}
FROM lockfast_place, generate_series(1, %s) AS n
WHERE key = %s AND arrived = (SELECT max(arrived) FROM lockfast_place WHERE key = %s)
"""
NAMES = f"""
INSERT INTO lockfast_door (key, {", ".join(CLAIM_COLUMNS)}, capacity, last_token, crowd, head)
SELECT convert_to('other ' || n, 'UTF8'),
    '', '', '', NULL, 0, 0, 0, 0, 0, 0, 0, 0, '', 1, 1, 0, 0
FROM generate_series(1, %s) AS n
"""
PAGES = """
SELECT coalesce(sum(shared_blks_hit + shared_blks_read), 0)::float8 FROM pg_stat_statements
WHERE userid = 'app'::regrole
"""


BATCH = 20
KEPT = 7
"""Enough runs for a session to keep its plan: from the sixth run on, it no longer plans."""

OWNER = '{"host": "here", "pid": 1, "label": "", "context": ""}'


class CountedPages:
    """A `Counted` store that counts pages of the tables and of their indexes."""

    def __init__(self, server: PostgresqlServer) -> None:
        self.run = server.run
        url = server.url(user="app")
        self.backend = PostgresqlBackend(url=url, location="here", clock=Clock(), connections=1)

    def lengthen(self, name: str, by: int) -> None:
        key = f"lockfast\0{name}".encode()
        self.run(MORE, by, key, key)
        self.run("UPDATE lockfast_door SET crowd = crowd + %s WHERE key = %s", by, key)

    def read(self) -> float:
        return float(self.run(PAGES)[0][0])

    def cost(self, act: Callable[[], None], times: int) -> float:
        """Return the largest number of pages that one call reads."""
        found = [self.read()]
        for _ in range(times):
            act()
            found.append(self.read())
        return max(after - before for before, after in pairwise(found))


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresqlServer]:
    """A server that never vacuums, and counts the pages that a statement touches."""
    with PostgresqlServer(settings=SETTINGS) as one:
        one.run("CREATE EXTENSION pg_stat_statements")
        one.run("CREATE ROLE app LOGIN SUPERUSER")
        yield one


@pytest.fixture
def store(server) -> Iterator[CountedPages]:
    one = CountedPages(server)
    yield one
    one.backend.close()
    server.run("DROP TABLE lockfast_door, lockfast_place")


@pytest.fixture(params=["never", "when small"])
def kept(request, store) -> CountedPages:
    """A store whose tables were vacuumed never, or only when small, before any plan was made."""
    LongLine(store, 10)
    if request.param == "when small":
        store.run("VACUUM ANALYZE lockfast_door, lockfast_place")
    return store


class TestLongLines(LongLines):
    """Only the entries that can decide the outcome are read."""


def test_a_hand_over_costs_the_same_when_ten_thousand_came_meanwhile(kept):
    """The cost may grow only with the depth of the index, once for each of the few lookups."""
    line = LongLine(kept, 10)
    few = kept.cost(line.hand_over, KEPT)
    kept.lengthen(line.name, 10_000)

    assert kept.cost(line.hand_over, 2) <= few + 12


def test_a_batch_costs_the_same_when_thirty_thousand_names_came_meanwhile(kept):
    """The cost may grow only with the depth of the index, once for each lookup of each name."""
    statements, deadline = (
        PostgresqlStatements(PostgresqlTables(), namespace="test"),
        Clock().now() + 60,
    )

    def cycle() -> None:
        for what in (OperationKind.TAKE, OperationKind.RENEW, OperationKind.RELEASE):
            names = (f"name {n}" for n in range(BATCH))
            operations = [
                Operation(what, Claim("it", one, "client", OWNER, 1, 1, 30.0)) for one in names
            ]
            answers = kept.backend._transport.send_all(
                statements.together(operations), deadline=deadline
            )
            assert None not in statements.done(operations, answers)

    few = kept.cost(cycle, KEPT)
    kept.run(NAMES, 30_000)

    assert kept.cost(cycle, 2) <= few + 3 * 8 * BATCH
