"""An interrupt strikes one operation of a group commit: the others are served, or get an error."""

from __future__ import annotations

import gc
import json
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from going_together import PATIENCE, claim
from interrupting import interrupt, places

from lockfast import OutcomeUnknown
from lockfast.backends.mysql import schema as mysql_schema
from lockfast.backends.mysql import statements as mysql_statements
from lockfast.backends.postgresql import schema as postgresql_schema
from lockfast.backends.postgresql import statements as postgresql_statements
from lockfast.backends.sql._sync.batch_queue import Batch
from lockfast.backends.sql._sync.group_commit import GroupCommit
from lockfast.runtime.clock import Clock
from lockfast_challenge.processes import eventually


class InstantPostgresql:
    """Replies at once that every operation was done."""

    where = "postgresql://here"

    request_timeout = None

    def ask(self, request: Any, **_: Any) -> Any:
        del request
        return [(7,)]

    def send_all(self, requests: Any, **_: Any) -> Any:
        [(_, values)] = requests
        return [[(bytes.fromhex(one["key"]), 7) for one in json.loads(values[0])]]


class InstantMysql:
    """Replies at once that every operation was done, in MySQL's format."""

    where = "mysql://here"

    request_timeout = None

    def ask(self, request: Any, **_: Any) -> Any:
        del request
        return [(1, 7)]

    def send_all(self, requests: Any, **_: Any) -> Any:
        [given] = [values[0] for statement, values in requests if statement.startswith("SET")]
        return [
            *[()] * (len(requests) - 1),
            [(bytes.fromhex(one["key"]), 7) for one in json.loads(given)],
        ]


STORES = {
    "postgresql": (
        InstantPostgresql,
        postgresql_statements.PostgresqlStatements,
        postgresql_schema.PostgresqlTables,
    ),
    "mysql": (InstantMysql, mysql_statements.MysqlStatements, mysql_schema.MysqlTables),
}


@pytest.fixture(params=STORES)
def store(request) -> Any:
    return STORES[request.param]


@pytest.fixture
def transport(store) -> Any:
    return store[0]()


@pytest.fixture
def statements(store) -> Any:
    return store[1](store[2](), namespace="test")


def test_an_interrupt_at_any_place_of_the_one_who_carries_leaves_nobody_waiting(
    statements, transport, monkeypatch
) -> None:
    """Operations that an interrupted caller carried are done, or end in OutcomeUnknown."""
    monkeypatch.setattr(GroupCommit, "_most", 1)
    monkeypatch.setattr(GroupCommit, "_stale_after", PATIENCE)
    clock = Clock()
    told: Counter[str] = Counter()
    gc.collect()  # or leftovers of other tests would be finalized inside the trial
    pool = ThreadPoolExecutor(2)

    def scene(act: Callable[[Callable[[], object]], object]) -> None:
        """Let one batch be under way, a second caller wait, and a third carry that operation."""
        together = GroupCommit(transport, statements, clock=clock)
        under_way = together._register(Batch("first", since=clock.now(), where=""))
        other = pool.submit(together.take, claim("other"), deadline=clock.now() + PATIENCE / 2)
        eventually(lambda: together._queue)

        def resume() -> None:
            eventually(lambda: len(together._queue) == 2 or has_ended.is_set())
            under_way.is_over = True
            together._call_next()

        has_ended = threading.Event()
        going_on = pool.submit(resume)
        try:
            act(lambda: together.take(claim("carrier"), deadline=clock.now() + PATIENCE))
        finally:
            has_ended.set()
        going_on.result(PATIENCE)
        try:
            told[str(other.result(PATIENCE / 4))] += 1
        except OutcomeUnknown:
            told["in doubt"] += 1
        assert together.take(claim("last"), deadline=clock.now() + PATIENCE) == 7
        assert not together._queue

    number = 0

    def count(action: Callable[[], object]) -> None:
        nonlocal number
        number = places(action)

    scene(count)
    for place in range(number + 1):
        scene(lambda action, place=place: interrupt(action, at=place))

    pool.shutdown()
    assert set(told) == {"7", "in doubt"}


def test_an_interrupt_at_any_place_of_one_who_is_alone_leaves_the_way_free(
    statements, transport
) -> None:
    clock = Clock()
    together = GroupCommit(transport, statements, clock=clock)

    def take() -> None:
        together.take(claim("door"), deadline=clock.now() + PATIENCE)

    for place in range(places(take) + 1):
        interrupt(take, at=place)
        assert not together._is_full(clock.now())
        assert together.take(claim("door"), deadline=clock.now() + PATIENCE) == 7
