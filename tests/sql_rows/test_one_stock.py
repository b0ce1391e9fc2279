"""Sixteen processes take many pieces each from one stock; the count is exact on every database.

With a version column, all processes take from one row; with claims, each takes rows of its own.
Without either, pieces are lost or taken twice.
"""

from __future__ import annotations

import subprocess
import sys

import pytest
import stock_of_rows
from databases import Database
from puppets import environment
from stock import LONG, PROCESSES, TIMES

ALL = PROCESSES * TIMES


def taken(database: Database, table: str, way: str, *, times: int = TIMES) -> list[int]:
    """Run all processes, and return everything that they took."""
    command = [sys.executable, stock_of_rows.__file__, way, str(PROCESSES), str(times)]
    command += [database.name, database.address(), table]
    told = subprocess.run(
        command, env=environment(), check=True, timeout=LONG, stdout=subprocess.PIPE, text=True
    )
    return [int(one) for one in told.stdout.split()]


@pytest.fixture
def stock(plain) -> str:
    """One row with the number of pieces."""
    table = plain.table("id INTEGER PRIMARY KEY, n INTEGER, version {whole} NOT NULL")
    plain.run(f"INSERT INTO {table} VALUES (1, {ALL}, 0)")
    return table


@pytest.fixture
def pieces(plain) -> str:
    """One row for each piece."""
    table = plain.table(
        "id INTEGER PRIMARY KEY, taken INTEGER, claimed_until {real}, claim_token {whole}"
    )
    rows = ", ".join(f"({number}, 0, NULL, NULL)" for number in range(ALL))
    plain.run(f"INSERT INTO {table} VALUES {rows}")
    return table


@pytest.mark.timeout(LONG)  # a busy machine may take long to run all processes
def test_by_a_version_none_is_lost(plain, stock):
    had = taken(plain, stock, "versioned")

    assert sorted(had) == list(range(ALL))  # each got a different number
    assert plain.run(f"SELECT n, version FROM {stock}") in ([(0, ALL)], [[0, ALL]])


@pytest.mark.timeout(LONG)
def test_without_a_version_some_are_lost(plain, stock):
    """If no piece were lost without a version, the test above would prove nothing."""
    had = taken(plain, stock, "unguarded", times=20)

    [[left]] = plain.run(f"SELECT n FROM {stock}")
    assert left > ALL - PROCESSES * 20
    assert len(set(had)) < len(had)


@pytest.mark.timeout(LONG)
def test_by_claims_no_row_is_had_twice_and_none_is_left(plain, pieces):
    had = taken(plain, pieces, "claimed")

    assert sorted(had) == list(range(ALL))
    assert plain.run(f"SELECT count(*) FROM {pieces} WHERE taken = 0")[0][0] == 0


@pytest.mark.timeout(LONG)
def test_without_claims_some_rows_are_had_twice(plain, pieces):
    """If no row were taken twice without claims, the test above would prove nothing."""
    had = taken(plain, pieces, "unclaimed", times=20)

    assert len(set(had)) < len(had)
