"""The tables are created once, recognised, and never taken from another application."""

from __future__ import annotations

import os

import pytest

from lockfast import ConfigurationError, Locks
from lockfast.backends.postgresql.schema import DOOR_COLUMNS, PostgresqlTables
from lockfast.backends.sql.schema import TABLE_FORMAT


@pytest.fixture
def unmade(server):
    """Tables that do not exist yet."""
    found = PostgresqlTables(table=f"t{os.urandom(4).hex()}")
    yield found
    server.run(f"DROP TABLE IF EXISTS {found.door}, {found.place}")


def test_the_tables_are_made_and_known_again(transport, unmade) -> None:
    assert not unmade.are_there(transport.run(unmade.look()))

    transport.look(unmade.make)

    assert unmade.are_there(transport.run(unmade.look()))


def test_many_may_make_them_at_once(transport, unmade) -> None:
    tasks = [transport.flavour.start(transport.look, unmade.make) for _ in range(8)]

    for one in tasks:
        one.result()

    assert unmade.are_there(transport.run(unmade.look()))


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        ("id int", "no column 'key'"),
        (
            ", ".join(f"{name} {kind}" for name, kind in {**DOOR_COLUMNS, "x": "int"}.items()),
            "column 'x'",
        ),
        (
            ", ".join(f"{name} {kind}" for name, kind in {**DOOR_COLUMNS, "ttl": "int"}.items()),
            "'ttl' is integer instead of double precision",
        ),
    ],
)
def test_a_table_of_somebody_else_is_refused(transport, server, unmade, columns, complaint) -> None:
    server.run(f"CREATE TABLE {unmade.door} ({columns})")

    with pytest.raises(ConfigurationError, match=complaint):
        unmade.are_there(transport.run(unmade.look()))


def test_a_newer_format_is_refused(transport, server, tables) -> None:
    server.run(f"COMMENT ON TABLE {tables.door} IS 'Lockfast, format {TABLE_FORMAT + 1}'")

    with pytest.raises(ConfigurationError, match="made by a newer Lockfast"):
        tables.are_there(transport.run(tables.look()))


@pytest.mark.parametrize("name", ["", "a b", 'a"b', "a;b", "1a", "ä", "a" * 49, "a.b"])
def test_a_name_that_would_need_quoting_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="schema="):
        PostgresqlTables(schema=name)
    with pytest.raises(ConfigurationError, match="table="):
        PostgresqlTables(table=name)


@pytest.mark.parametrize("name", ["a%22b", "a%27b", "a;b", "a.b", "%22", "a%00b"])
@pytest.mark.parametrize("option", ["schema", "table"])
def test_nor_does_one_reach_a_statement_by_the_url(option: str, name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{option}="):
        Locks(f"postgresql://127.0.0.1:1/shop?{option}={name}")


def test_tables_may_be_called_as_a_word_of_the_language_is(transport, server) -> None:
    """A table's name may be a keyword of SQL."""
    found = PostgresqlTables(schema="public", table="select")
    transport.look(found.make)
    try:
        assert found.are_there(transport.run(found.look()))
    finally:
        server.run(f"DROP TABLE {found.door}, {found.place}")
