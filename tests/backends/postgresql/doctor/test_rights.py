"""What the doctor finds about the tables, and about a user's permissions on them."""

from __future__ import annotations

import os

import pytest

from lockfast.backends.postgresql.schema import PostgresqlTables


@pytest.fixture
def schema(server):
    """A schema for this test alone."""
    name = f"s{os.urandom(4).hex()}"
    server.run(f"CREATE SCHEMA {name}")
    yield name
    server.run(f"DROP SCHEMA {name} CASCADE")


@pytest.fixture
def theirs(server, schema) -> PostgresqlTables:
    """Tables in the test's schema, which belong to the owner of the schema."""
    found = PostgresqlTables(schema=schema)
    with server.connect() as connection:
        for statement in found.definition(with_schema=False):
            connection.execute(statement)
    return found


def test_tables_that_the_first_use_makes(finding) -> None:
    found = finding("tables", tables=PostgresqlTables(table="nothing"))

    assert found.level == "note"
    assert '"public"."nothing_door"' in found.message
    assert "lockfast init" in found.remedy


def test_a_schema_that_the_first_use_makes(finding) -> None:
    assert finding("tables", tables=PostgresqlTables(schema="nothing")).level == "note"


@pytest.mark.parametrize("is_there", [True, False])
def test_tables_that_this_user_may_not_make(finding, server, user, schema, is_there) -> None:
    server.run(f"GRANT USAGE ON SCHEMA {schema} TO {user}")
    tables = PostgresqlTables(schema=schema if is_there else "nothing")

    found = finding("tables", server.url(user=user), tables=tables)

    assert found.level == "error"
    assert f"{user} may not make them" in found.message
    assert "run lockfast init as a user that may, then GRANT SELECT" in found.remedy


def test_a_schema_that_this_user_may_not_use(finding, server, user, theirs) -> None:
    found = finding("permissions", server.url(user=user), tables=theirs)

    assert found.level == "error"
    assert "may not use the schema" in found.message


def test_rights_that_are_missing_are_named_and_the_remedy_gives_them(
    finding, server, user, theirs
) -> None:
    server.run(f"GRANT USAGE ON SCHEMA {theirs.schema} TO {user}")
    server.run(f"GRANT SELECT, INSERT ON {theirs.place} TO {user}")

    found = finding("permissions", server.url(user=user), tables=theirs)
    server.run(found.remedy)
    after = finding("permissions", server.url(user=user), tables=theirs)

    assert found.level == "error"
    assert f"SELECT, INSERT, UPDATE, DELETE on {theirs.door}" in found.message
    assert f"; UPDATE, DELETE on {theirs.place}" in found.message
    assert after.level == "ok"


def test_a_user_whose_name_needs_quoting(finding, server, theirs) -> None:
    server.run('CREATE ROLE "Odd-User" LOGIN')
    try:
        found = finding("permissions", server.url(user="Odd-User"), tables=theirs)
        server.run(found.remedy.partition(";")[0])
    finally:
        server.run('DROP OWNED BY "Odd-User"')
        server.run('DROP ROLE "Odd-User"')

    assert 'TO "Odd-User"' in found.remedy


def test_a_table_of_somebody_else(finding, server, schema) -> None:
    server.run(f"CREATE TABLE {schema}.lockfast_door (id int)")

    found = finding("permissions", tables=PostgresqlTables(schema=schema))

    assert found.level == "error"
    assert "is not Lockfast's door table" in found.message
