"""Requests that wait at the same time share one statement; each gets its own reply or error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
from backends.sql.together_laws import TogetherLaws
from going_together import (
    FIRST,
    PATIENCE,
    STANDS,
    Subject,
    busy,
    claim,
    locked_out,
    names,
)

from lockfast import ConfigurationError
from lockfast.backends.postgresql.statements import PostgresqlStatements
from lockfast.backends.sql._async.group_commit import AsyncGroupCommit
from lockfast.backends.sql._sync.group_commit import GroupCommit
from lockfast.core.naming import storage_key
from lockfast_challenge.processes import eventually


@pytest.fixture
def statements(tables) -> PostgresqlStatements:
    return PostgresqlStatements(tables, namespace="test")


@pytest.fixture
def subject(transport, statements) -> Iterator[Subject]:
    one = Subject(transport, statements)
    yield one
    one.close()


@pytest.fixture
def standstill(monkeypatch) -> None:
    """Keep callers from giving up on the batch under way, since the tests count statements."""
    for queue in (AsyncGroupCommit, GroupCommit):
        monkeypatch.setattr(queue, "_stale_after", PATIENCE)


class Stage:
    """Ways to hold up and break this server."""

    def __init__(self, server: Any, tables: Any, another: Callable[[], Subject]) -> None:
        self._server = server
        self._tables = tables
        self.another = another

    def locked_out(self) -> AbstractContextManager[Any]:
        return locked_out(self._server, self._tables)

    def busy(self, subject: Subject) -> list[Any]:
        return busy(subject, self._server)

    @contextmanager
    def locked(self, name: str) -> Iterator[None]:
        with self._server.connect() as other, other.transaction():
            key = storage_key("test", name)
            other.execute(f"SELECT FROM {self._tables.door} WHERE key = %s FOR UPDATE", (key,))
            yield

    def end_first(self) -> int:
        return self._server.terminate(STANDS.format("RETURNING d.token"))

    def end_batch(self) -> int:
        return self._server.terminate(STANDS.format("json_to_recordset"))

    def deadlocks(self) -> Any:
        text = "SELECT deadlocks FROM pg_stat_database WHERE datname = 'postgres'"
        return self._server.run(text)


@pytest.fixture
def stage(server, tables, wire_to, statements) -> Stage:
    return Stage(server, tables, lambda: Subject(wire_to(server.url()), statements))


class TestTogether(TogetherLaws):
    """The tests for every SQL server."""


# -- alone -----------------------------------------------------------------------------


def test_one_who_is_alone_goes_at_once_by_the_plain_statement(subject) -> None:
    subject.know("door")
    one = claim("door")

    assert subject.call("take", one) is not None
    assert subject.call("take", claim("door")) is None
    assert subject.call("renew", [one, claim("door")]) == [True, False]
    assert subject.call("renew", []) == []
    assert subject.call("give_back", one)
    assert not subject.call("give_back", one)

    assert subject.asked == ["UPDATE", "UPDATE", "WITH", "UPDATE", "UPDATE"]


def test_a_name_that_nobody_knows_is_taken_by_one_who_says_so(subject) -> None:
    deadline = subject.flavour.clock.now() + PATIENCE
    take = subject.inner.take

    assert subject.call("take", claim("door")) is None
    assert subject.flavour.call(take, claim("door"), deadline=deadline, is_known=False) is not None


# -- together --------------------------------------------------------------------------


def test_names_that_nobody_knows_are_made_known_on_the_way(
    subject, server, tables, standstill
) -> None:
    with locked_out(server, tables):
        busy(subject, server)
        asked = [subject.start("take", claim(one)) for one in names(5)]
        eventually(lambda: subject.number_waiting == 5)

    assert None not in [one.result(PATIENCE) for one in asked]


# -- failures of one operation ---------------------------------------------------------


def test_what_the_server_refuses_because_of_one_is_done_for_the_others(
    subject, server, tables, standstill
) -> None:
    subject.know(*FIRST, *names(6))
    with locked_out(server, tables):
        busy(subject, server)
        guilty = subject.start("take", claim("name 0", party="a\0b"))
        others = [subject.start("take", claim(one)) for one in names(5)[1:]]
        endless = subject.start("take", claim("name 5", ttl=float("inf")))
        eventually(lambda: subject.number_waiting == 6)

    assert None not in [one.result(PATIENCE) for one in others]
    assert endless.result(PATIENCE) is not None
    with pytest.raises(ConfigurationError, match="encoding cannot hold this text"):
        guilty.result(PATIENCE)
