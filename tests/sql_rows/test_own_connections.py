"""Unsuitable connections and tables are refused with a clear message, and nothing leaks."""

from __future__ import annotations

import asyncio

import pytest
import sqlalchemy
from databases import Database
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool
from test_claim_rows import claims, five_jobs

from lockfast import ConfigurationError
from lockfast.sql_rows import async_claim_rows, claim_rows

PENDING = {"key": "id", "where": {"state": "pending"}}


@pytest.fixture
def database(tmp_path) -> Database:
    return Database("sqlite", tmp_path)


@pytest.fixture
def jobs(database) -> str:
    return five_jobs(database)


class Stranger:
    is_closed = False

    def close(self) -> None:
        self.is_closed = True


def test_a_connection_that_cannot_be_prepared_is_closed():
    stranger = Stranger()

    with pytest.raises(ConfigurationError, match="no connection that is known"):
        next(claim_rows(lambda: stranger, "jobs", **PENDING))

    assert stranger.is_closed


def test_what_cannot_even_be_closed_is_told_as_what_it_is():
    with pytest.raises(ConfigurationError, match="NoneType is no connection"):
        next(claim_rows(lambda: None, "jobs", **PENDING))


@pytest.mark.parametrize("way", ["of the engine", "of its connections", "of a session"])
def test_a_connection_that_commits_every_statement_by_itself_is_refused(database, jobs, way):
    """A change to a row that belongs to another worker could not be rolled back."""
    options = {"isolation_level": "AUTOCOMMIT"}
    engine = sqlalchemy.create_engine(
        database._engine_url(), poolclass=NullPool, **(options if way == "of the engine" else {})
    )
    if way != "of the engine":
        engine = engine.execution_options(**options)
    connect = (lambda: Session(engine)) if way == "of a session" else engine.connect

    with (
        claim_rows(connect, jobs, **PENDING) as rows,
        pytest.raises(ConfigurationError, match="AUTOCOMMIT"),
    ):
        next(rows)

    assert database.run(f"SELECT id FROM {jobs} WHERE claimed_until IS NOT NULL") == []


def test_so_it_is_in_asyncio(tmp_path):
    database = Database("sqlalchemy postgresql asyncio", tmp_path)
    jobs = five_jobs(database)

    async def scene() -> None:
        engine = create_async_engine(
            database._engine_url(), poolclass=NullPool, isolation_level="AUTOCOMMIT"
        )
        async with async_claim_rows(engine.connect, jobs, **PENDING) as rows:
            await anext(rows)

    with pytest.raises(ConfigurationError, match="AUTOCOMMIT"):
        asyncio.run(scene())


@pytest.mark.parametrize("limit", [1, 5])
def test_a_key_that_several_rows_share_is_refused(database, jobs, limit):
    """If the loop just ended, there would seem to be no work."""
    with (
        claims(database, jobs, key="state", order_by="born", limit=limit) as rows,
        pytest.raises(ConfigurationError, match="not unique"),
    ):
        next(rows)

    assert database.run(f"SELECT id FROM {jobs} WHERE claimed_until IS NOT NULL") == []


def test_names_of_our_own_columns_are_refused_in_any_case(database, jobs):
    """For most databases, ID and id are the same column."""
    with claims(database, jobs) as rows:
        row = next(rows)
        for changes in ({"ID": 9}, {"Claim_Token": 1}, {"CLAIMED_UNTIL": None}):
            with pytest.raises(ConfigurationError, match="not"):
                row.finish(**changes)
        row.release()

    for options in ({"token": "ID"}, {"until": "Claim_Token"}, {"where": {"CLAIM_TOKEN": 1}}):
        with pytest.raises(ConfigurationError, match="two columns of their own"):
            claims(database, jobs, **options)
