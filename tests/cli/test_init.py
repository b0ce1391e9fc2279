"""`init` creates, prints and drops the tables of a store that needs some."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result
from servers.postgresql import shared_server

from lockfast.backends.postgresql.schema import PostgresqlTables
from lockfast.cli.app import app
from lockfast_challenge.servers.postgresql import PostgresqlServer


@pytest.fixture
def tables() -> Iterator[PostgresqlTables]:
    """Tables in a schema that does not exist yet."""
    found = PostgresqlTables(schema=f"s{os.urandom(4).hex()}")
    yield found
    shared_server().run(f"DROP SCHEMA IF EXISTS {found.schema} CASCADE")


@pytest.fixture
def server() -> PostgresqlServer:
    return shared_server()


@pytest.fixture
def init(server, tables):
    """Run the command on a real server."""

    def run(*arguments: str, user: str = "postgres") -> Result:
        url = f"{server.url(user=user)}?schema={tables.schema}"
        return CliRunner().invoke(app, ["init", url, *arguments])

    return run


def number_of_tables(server: PostgresqlServer, tables: PostgresqlTables) -> int:
    found = server.run("SELECT count(*) FROM pg_tables WHERE schemaname = %s", tables.schema)
    return int(found[0][0])


def test_the_tables_are_made_and_the_second_time_there_is_nothing_to_do(
    init, server, tables
) -> None:
    first, second = init(), init()

    assert first.exit_code == second.exit_code == 0
    assert first.stdout == f"made {tables.door} and {tables.place}\n"
    assert second.stdout == f"{tables.door} and {tables.place} are there already\n"
    assert number_of_tables(server, tables) == 2


def test_two_urls_are_one_too_many(init, server, tables) -> None:
    """Whichever of two URLs won, the tables might be created where they are not expected."""
    done = init("--url", "sqlite://elsewhere.db")

    assert done.exit_code == 2
    assert "give one URL" in done.stderr
    assert number_of_tables(server, tables) == 0


def test_the_url_that_is_given_goes_before_that_of_the_environment(
    init, server, tables, monkeypatch
) -> None:
    monkeypatch.setenv("LOCKFAST_URL", "sqlite://elsewhere.db")

    assert init().exit_code == 0
    assert number_of_tables(server, tables) == 2


def test_a_dry_run_prints_what_another_may_run(init, server, tables) -> None:
    done = init("--dry-run")
    assert number_of_tables(server, tables) == 0

    server.run(done.stdout)

    assert done.exit_code == 0
    assert number_of_tables(server, tables) == 2
    assert "are there already" in init().stdout


def test_they_are_dropped_if_that_is_meant(init, server, tables) -> None:
    init()
    unasked = init("--drop")
    printed = init("--drop", "--dry-run")
    assert number_of_tables(server, tables) == 2

    dropped_, again = init("--drop", "--yes"), init("--drop", "--yes")

    assert unasked.exit_code == 2
    assert "add --yes if you mean it" in unasked.stderr
    assert printed.stdout == f"DROP TABLE IF EXISTS {tables.door}, {tables.place};\n"
    assert (dropped_.exit_code, again.exit_code) == (0, 1)
    assert dropped_.stdout == f"dropped {tables.door} and {tables.place}\n"
    assert "to drop" in again.stderr
    assert number_of_tables(server, tables) == 0


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], (True, "CREATE SCHEMA")),
        (["--dry-run"], (False, "CREATE SCHEMA")),
        (["--drop", "--yes"], (False, "DROP TABLE")),
    ],
)
def test_in_json(init, server, tables, arguments, expected) -> None:
    answer = json.loads(init("--json", *arguments).stdout)

    assert answer["store"].endswith(f"@{server.address}/postgres")
    assert answer["tables"] == [tables.door, tables.place]
    first, *_ = answer["statements"]
    assert (answer["changed"], " ".join(first.split()[:2])) == expected


def test_a_table_of_somebody_else_is_neither_used_nor_dropped(init, server, tables) -> None:
    server.run(f"CREATE SCHEMA {tables.schema}")
    server.run(f"CREATE TABLE {tables.door} (theirs int)")

    for arguments in ([], ["--drop", "--yes"]):
        done = init(*arguments)
        assert done.exit_code == 78
        assert "is not Lockfast's door table" in done.stderr

    assert number_of_tables(server, tables) == 1


def test_who_may_not_make_them_is_told_what_it_takes(init, server) -> None:
    name = f"user_{os.urandom(4).hex()}"
    server.run(f"CREATE ROLE {name} LOGIN")
    try:
        done = init(user=name)
    finally:
        server.run(f"DROP ROLE {name}")

    assert done.exit_code == 78
    assert "may not make them; let one who may run `lockfast init`" in done.stderr


# -- stores that need none -----------------------------------------------------------------


def test_a_store_that_needs_no_tables_says_so_and_is_not_made(cli, tmp_path) -> None:
    url = f"sqlite://{tmp_path}/other.db"

    made_, dropped_, as_json = cli("init", url), cli("init", "--drop", url), cli.json("init", url)

    assert made_.returncode == dropped_.returncode == 0
    assert f"{tmp_path}/other.db needs no tables" in made_.stderr
    assert as_json == {
        "store": f"{tmp_path}/other.db",
        "tables": [],
        "statements": [],
        "changed": False,
    }
    assert not (tmp_path / "other.db").exists()


def test_the_url_may_stand_in_the_environment(cli, tmp_path) -> None:
    assert f"{tmp_path}/locks.db needs no tables" in cli("init").stderr


def test_a_url_without_a_scheme_is_answered_by_a_sentence(cli) -> None:
    done = cli("init", "localhost")

    assert done.returncode == 78
    assert "the URL has no scheme" in done.stderr
