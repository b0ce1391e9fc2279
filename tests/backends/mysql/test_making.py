"""The tables are made where they are missing, by who may, and dropped only if they are ours."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

from holdfast import ConfigurationError
from holdfast.backends.mysql.schema import Tables
from holdfast.backends.sql._async import making as aio
from holdfast.backends.sql._sync import making as threads
from holdfast.cli.app import app


def by(verb: str) -> Callable[..., Any]:
    def call(wire: Any, tables: Tables) -> Any:
        kind = threads if wire.flavour.name == "sync" else aio
        deadline = wire.flavour.clock.now() + 20
        return wire.flavour.call(getattr(kind, verb), wire.inner, tables, deadline=deadline)

    return call


made, dropped, are_there = map(by, ("made", "dropped", "are_there"))


@pytest.fixture
def unmade(server) -> Iterator[Tables]:
    """Give tables that nobody has made yet."""
    found = Tables(f"t{os.urandom(4).hex()}")
    yield found
    server.run(f"DROP TABLE IF EXISTS {found.door}, {found.place}", database="test")


@pytest.fixture
def user(server) -> Iterator[str]:
    """A user who may make nothing."""
    name = f"user_{os.urandom(4).hex()}"
    server.run(f"CREATE USER {name}@'127.0.0.1'")
    server.run(f"GRANT SELECT, INSERT, UPDATE, DELETE ON test.* TO {name}@'127.0.0.1'")
    yield name
    server.run(f"DROP USER {name}@'127.0.0.1'")


def test_they_are_made_once(wire, unmade) -> None:
    assert made(wire, unmade)
    assert not made(wire, unmade)
    assert are_there(wire, unmade)


def test_many_may_make_them_at_once(wire, unmade) -> None:
    tasks = [wire.flavour.start(made, wire, unmade) for _ in range(6)]

    assert sum(one.result() for one in tasks) >= 1
    assert are_there(wire, unmade)


def test_what_half_of_is_there_is_completed(wire, server, unmade) -> None:
    made(wire, unmade)
    server.run(f"DROP TABLE {unmade.place}", database="test")

    assert made(wire, unmade)
    assert are_there(wire, unmade)


def test_who_finds_them_there_needs_no_right_to_make_any(
    wire, wire_to, server, user, unmade
) -> None:
    made(wire, unmade)

    assert not made(wire_to(server.url(user=user)), unmade)


def test_who_may_not_make_them_is_told(wire_to, server, user, unmade) -> None:
    with pytest.raises(ConfigurationError, match="let one who may run `holdfast init`"):
        made(wire_to(server.url(user=user)), unmade)


def test_they_are_dropped_once(wire, unmade) -> None:
    made(wire, unmade)

    assert dropped(wire, unmade)
    assert not dropped(wire, unmade)
    assert not are_there(wire, unmade)


def test_a_table_of_somebody_else_is_not_dropped(wire, server, unmade) -> None:
    server.run(f"CREATE TABLE {unmade.place} (theirs int)", database="test")

    with pytest.raises(ConfigurationError, match="is not Holdfast's place table"):
        dropped(wire, unmade)

    assert server.run(f"SELECT count(*) FROM {unmade.place}", database="test") == ((0,),)


# -- by the command ------------------------------------------------------------------------


@pytest.fixture
def init(server, unmade) -> Callable[..., Result]:
    """Run the command on a real server."""

    def run(*arguments: str) -> Result:
        url = f"{server.url()}?table={unmade.table}"
        return CliRunner().invoke(app, ["init", url, *arguments])

    return run


def number_of_tables(server: Any, tables: Tables) -> int:
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
