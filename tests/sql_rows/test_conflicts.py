"""Which errors mean that two transactions conflicted: only those of the drivers."""

from __future__ import annotations

import asyncmy.errors
import psycopg
import pymysql
import pytest
from django.db import utils
from sqlalchemy.exc import OperationalError

from lockfast.sql_rows.transactions import is_conflict

DEADLOCK = pymysql.err.OperationalError(1213, "Deadlock found when trying to get lock")


def by_django() -> Exception:
    error = utils.OperationalError(1213, "Deadlock found")
    error.__cause__ = DEADLOCK
    return error


@pytest.mark.parametrize(
    "error",
    [
        DEADLOCK,
        asyncmy.errors.OperationalError(1213, "Deadlock found"),
        OperationalError("UPDATE", {}, DEADLOCK),
        by_django(),
        psycopg.errors.DeadlockDetected(),
        psycopg.errors.SerializationFailure(),
    ],
    ids=["pymysql", "asyncmy", "sqlalchemy", "django", "psycopg", "psycopg's snapshot"],
)
def test_a_deadlock_is_a_conflict_by_every_library(error):
    assert is_conflict(error)


@pytest.mark.parametrize(
    "error",
    [KeyError(1213), ValueError({"field": "wrong"}), ValueError(), KeyboardInterrupt(1020)],
    ids=repr,
)
def test_what_the_callers_own_code_raises_is_none(error):
    """The caller's error is no conflict, even with a number of MySQL's or an incomparable value."""
    assert not is_conflict(error)
