"""A statement on the caller's connection gets the same reply from every library."""

from __future__ import annotations

import os
import sqlite3

import pytest
from callers import ALL, ASYNC, SYNC, Caller
from psycopg import RawCursor
from psycopg.rows import dict_row
from pymysql.cursors import SSDictCursor

from lockfast import ConfigurationError
from lockfast.dbapi._async.connection import AsyncCallersConnection
from lockfast.dbapi._sync.connection import CallersConnection
from lockfast.dbapi.statements import (
    MYSQL,
    POSTGRESQL,
    SQLITE,
    ParameterStyle,
    Statement,
    Value,
    joined,
)

ODD = 'a "name" `of` %s %(x)s :value ?'


@pytest.fixture(params=ALL)
def caller(request, tmp_path):
    one = Caller(request.param, tmp_path)
    yield one
    one.rollback()
    one.close()


@pytest.fixture
def mine(caller):
    make = AsyncCallersConnection if caller.kind in ASYNC else CallersConnection
    return make(caller.connection)


@pytest.fixture
def table(caller):
    name = f"t{os.urandom(4).hex()}{ODD}"
    columns = f"id BIGINT PRIMARY KEY, {caller.quoted(ODD)} VARCHAR(99)"
    caller.run(f"CREATE TABLE {caller.quoted(name)} ({columns})")
    caller.commit()
    yield name
    caller.rollback()
    caller.run(f"DROP TABLE {caller.quoted(name)}")
    caller.commit()


def inserted(mine, table) -> Statement:
    quoted = mine.dialect.quoted
    columns = f" (id, {quoted(ODD)}) VALUES ("
    values = (Value(2**53 - 1), Value("it's %s :value ? \\ 100%"))
    return Statement("INSERT INTO ", quoted(table), columns, values[0], ", ", values[1], ")")


def test_names_and_values_arrive_as_they_are(caller, mine, table):
    assert caller.call(mine.run, inserted(mine, table)).changed == 1
    found = caller.call(mine.run, Statement("SELECT * FROM ", mine.dialect.quoted(table)))

    assert found.named() == [{"id": 2**53 - 1, ODD: "it's %s :value ? \\ 100%"}]
    assert found.rows == ((2**53 - 1, "it's %s :value ? \\ 100%"),)


def test_it_is_part_of_the_callers_transaction(caller, mine, table):
    caller.call(mine.run, inserted(mine, table))
    caller.rollback()

    assert caller.run(f"SELECT count(*) FROM {caller.quoted(table)}") == [(0,)]


@pytest.mark.parametrize("what", ["table", "column"])
def test_what_is_not_there_is_told_in_a_sentence(caller, mine, table, what):
    quoted = mine.dialect.quoted
    words = ("nowhere", "id") if what == "table" else (table, "nothing")

    with pytest.raises(ConfigurationError, match="knows no such table, column"):
        caller.call(
            mine.run,
            Statement("SELECT ", quoted(words[1]), " FROM ", mine.dialect.quoted_table(words[0])),
        )
    caller.rollback()


@pytest.mark.parametrize("kind", ["psycopg", "pymysql", "sqlite3"])
def test_the_callers_own_form_of_rows_does_not_matter(kind, tmp_path):
    caller = Caller(kind, tmp_path)
    match kind:
        case "psycopg":
            caller.connection.row_factory = dict_row
            caller.connection.cursor_factory = RawCursor
        case "pymysql":
            caller.connection.cursorclass = SSDictCursor
        case _:
            caller.connection.row_factory = sqlite3.Row

    found = CallersConnection(caller.connection).run(Statement("SELECT ", Value(7), " AS n"))

    caller.close()
    assert found.rows == ((7,),)
    assert found.columns == ("n",)


@pytest.mark.parametrize("kind", ["sqlite3", "psycopg/async"])
def test_the_other_flavour_is_refused_in_a_sentence(kind, tmp_path):
    caller = Caller(kind, tmp_path)
    other = AsyncCallersConnection if kind in SYNC else CallersConnection

    with pytest.raises(ConfigurationError, match="asyncio"):
        other(caller.connection)
    caller.close()


@pytest.mark.parametrize("stranger", [object(), None, "sqlite://", sqlite3])
def test_a_stranger_is_refused_in_a_sentence(stranger):
    with pytest.raises(ConfigurationError, match="give a connection of sqlite3, psycopg 3"):
        CallersConnection(stranger)


@pytest.mark.parametrize("dialect", [SQLITE, POSTGRESQL, MYSQL])
@pytest.mark.parametrize("name", ["", "a\0b", "\ud800"])
def test_what_can_be_no_name_is_refused(dialect, name):
    with pytest.raises(ConfigurationError, match="cannot be the name of a table or a column"):
        dialect.quoted(name)


def test_a_name_that_postgresql_would_cut_off_is_refused():
    assert POSTGRESQL.quoted("x" * 63)
    with pytest.raises(ConfigurationError, match="at most 63 bytes"):
        POSTGRESQL.quoted("é" * 32)


def test_a_schema_and_a_table_are_quoted_each():
    assert POSTGRESQL.quoted_table(("shop", 'a"b')) == '"shop"."a""b"'
    assert POSTGRESQL.quoted_table("shop.orders") == '"shop.orders"'
    with pytest.raises(ConfigurationError, match="tuple of two"):
        POSTGRESQL.quoted_table(("a", "b", "c"))
    with pytest.raises(TypeError, match="is a str, not int"):
        POSTGRESQL.quoted(7)


def test_a_statement_is_written_with_the_marks_of_each_driver():
    both = joined(" AND ", [Statement("a%:b = ", Value(1)), Statement("c = ", Value(2))])

    assert both.words(ParameterStyle.QUESTION) == "a%:b = ? AND c = ?"
    assert both.words(ParameterStyle.PERCENT) == "a%%:b = %s AND c = %s"
    assert both.words(ParameterStyle.NAMED) == r"a%\:b = :value_0 AND c = :value_1"
    assert both.values() == (1, 2)
    assert both.named_values() == {"value_0": 1, "value_1": 2}
