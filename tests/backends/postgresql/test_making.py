"""Missing tables are created if the user may create them, and only our own tables are dropped."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from backends.sql.making_laws import MakingLaws, are_there, dropped, made

from lockfast import ConfigurationError
from lockfast.backends.postgresql.schema import PostgresqlTables


@pytest.fixture
def elsewhere(server) -> Iterator[PostgresqlTables]:
    """Tables in a schema that does not exist yet."""
    found = PostgresqlTables(schema=f"s{os.urandom(4).hex()}")
    yield found
    server.run(f"DROP SCHEMA IF EXISTS {found.schema} CASCADE")


@pytest.fixture
def user(server) -> Iterator[str]:
    """A user who may create nothing."""
    name = f"user_{os.urandom(4).hex()}"
    server.run(f"CREATE ROLE {name} LOGIN")
    yield name
    server.run(f"DROP OWNED BY {name}")
    server.run(f"DROP ROLE {name}")


@pytest.fixture
def unmade(server, elsewhere) -> PostgresqlTables:
    """Tables that do not exist yet, in a schema that exists."""
    server.run(f"CREATE SCHEMA {elsewhere.schema}")
    return elsewhere


@pytest.fixture
def run(server) -> Callable[..., Any]:
    return server.run


class TestMaking(MakingLaws):
    """The tests for every SQL server."""


def test_schema_and_tables_are_made_once(transport, elsewhere) -> None:
    assert made(transport, elsewhere)
    assert not made(transport, elsewhere)
    assert are_there(transport, elsewhere)


def test_who_may_not_make_schemas_makes_tables_in_one_that_is_there(
    wire_to, server, user, elsewhere
) -> None:
    server.run(f"CREATE SCHEMA {elsewhere.schema}")
    server.run(f"GRANT USAGE, CREATE ON SCHEMA {elsewhere.schema} TO {user}")

    assert made(wire_to(server.url(user=user)), elsewhere)


def test_who_finds_them_there_needs_no_right_to_make_any(
    transport, wire_to, server, user, elsewhere
) -> None:
    made(transport, elsewhere)
    server.run(f"GRANT USAGE ON SCHEMA {elsewhere.schema} TO {user}")

    assert not made(wire_to(server.url(user=user)), elsewhere)


@pytest.mark.parametrize("schema_is_there", [True, False])
def test_who_may_not_make_them_is_told(wire_to, server, user, elsewhere, schema_is_there) -> None:
    if schema_is_there:
        server.run(f"CREATE SCHEMA {elsewhere.schema}")
        server.run(f"GRANT USAGE ON SCHEMA {elsewhere.schema} TO {user}")

    with pytest.raises(ConfigurationError, match="let one who may run `lockfast init`"):
        made(wire_to(server.url(user=user)), elsewhere)


def test_another_user_who_was_faster_is_no_failure(
    wire_to, server, user, elsewhere, monkeypatch
) -> None:
    """Another user may create the tables after we looked; then we may not comment on them."""
    server.run(f"CREATE SCHEMA {elsewhere.schema}")
    server.run(f"GRANT USAGE, CREATE ON SCHEMA {elsewhere.schema} TO {user}")
    honest = PostgresqlTables.look_for_schema

    def while_another_makes_them(tables: PostgresqlTables) -> Any:
        with server.connect() as other:
            for statement in tables.definition():
                other.execute(statement)
        return honest(tables)

    monkeypatch.setattr(PostgresqlTables, "look_for_schema", while_another_makes_them)

    assert not made(wire_to(server.url(user=user)), elsewhere)


def test_they_are_dropped_once(transport, server, elsewhere) -> None:
    made(transport, elsewhere)

    assert dropped(transport, elsewhere)
    assert not dropped(transport, elsewhere)
    assert not are_there(transport, elsewhere)
    assert server.run("SELECT 1 FROM pg_namespace WHERE nspname = %s", elsewhere.schema)


def test_the_tables_are_kept_for_rows_that_change_all_the_time(
    transport, server, elsewhere
) -> None:
    """Half of each page stays free in the door table, where rows are updated in place."""
    made(transport, elsewhere)

    found = {
        name: set(options)
        for name, options in server.run(
            "SELECT relname, reloptions FROM pg_class"
            " WHERE relkind = 'r' AND relnamespace = %s::regnamespace",
            elsewhere.schema,
        )
    }

    door, place = (found[name] for name in elsewhere.names)
    assert "vacuum_truncate=off" in place
    assert door - place == {"fillfactor=50"}
