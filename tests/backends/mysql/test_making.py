"""Missing tables are created if the user may create them, and only our own tables are dropped."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from backends.mysql import each_server
from backends.sql.making_laws import MakingLaws, made
from click.testing import CliRunner, Result

from lockfast import ConfigurationError
from lockfast.backends.mysql.schema import MysqlTables
from lockfast.cli.app import app

server = each_server.server


@pytest.fixture
def user(server) -> Iterator[str]:
    """A user who may create nothing."""
    name = f"user_{os.urandom(4).hex()}"
    server.run(f"CREATE USER {name}@'127.0.0.1'")
    server.run(f"GRANT SELECT, INSERT, UPDATE, DELETE ON test.* TO {name}@'127.0.0.1'")
    yield name
    server.run(f"DROP USER {name}@'127.0.0.1'")


@pytest.fixture
def run(server) -> Callable[..., Any]:
    return partial(server.run, database="test")


class TestMaking(MakingLaws):
    """The tests for every SQL server."""


def test_who_finds_them_there_needs_no_right_to_make_any(
    transport, wire_to, server, user, unmade
) -> None:
    made(transport, unmade)

    assert not made(wire_to(server.url(user=user)), unmade)


def test_who_may_not_make_them_is_told(wire_to, server, user, unmade) -> None:
    with pytest.raises(ConfigurationError, match="let one who may run `lockfast init`"):
        made(wire_to(server.url(user=user)), unmade)


# -- with the command ----------------------------------------------------------------------


@pytest.fixture
def init(server, unmade) -> Callable[..., Result]:
    """Return a function that runs `lockfast init` on a real server."""

    def run(*arguments: str) -> Result:
        url = f"{server.url()}?table={unmade.table}"
        return CliRunner().invoke(app, ["init", url, *arguments])

    return run


def number_of_tables(server: Any, tables: MysqlTables) -> int:
    return len(server.run("SHOW TABLES LIKE %s", f"{tables.table}%", database="test"))


def test_init_makes_them_and_the_second_time_there_is_nothing_to_do(init, server, unmade) -> None:
    first, second = init(), init()

    assert first.exit_code == second.exit_code == 0
    assert first.stdout == f"made {unmade.door} and {unmade.place}\n"
    assert second.stdout == f"{unmade.door} and {unmade.place} are there already\n"
    assert number_of_tables(server, unmade) == 2


def test_a_dry_run_prints_what_another_may_run(init, server, unmade) -> None:
    done = init("--dry-run")
    assert number_of_tables(server, unmade) == 0

    for statement in done.stdout.split(";\n"):
        if statement.strip():
            server.run(statement, database="test")

    assert done.exit_code == 0
    assert "are there already" in init().stdout


def test_init_drops_them_if_that_is_meant(init, server, unmade) -> None:
    init()
    unasked, printed = init("--drop"), init("--drop", "--dry-run")
    assert number_of_tables(server, unmade) == 2

    gone, again = init("--drop", "--yes"), init("--drop", "--yes")

    assert unasked.exit_code == 2
    assert printed.stdout == f"DROP TABLE IF EXISTS {unmade.door}, {unmade.place};\n"
    assert (gone.exit_code, again.exit_code) == (0, 1)
    assert gone.stdout == f"dropped {unmade.door} and {unmade.place}\n"
    assert number_of_tables(server, unmade) == 0


def test_init_in_json(init, server, unmade) -> None:
    answer = json.loads(init("--json").stdout)

    assert answer["store"].endswith(f"@{server.address}/test")
    assert answer["tables"] == [unmade.door, unmade.place]
    assert answer["changed"] is True
