"""Executed statements whose replies never arrive, and statements that arrive too late."""

from __future__ import annotations

import pytest
from lost_replies import LostReplies, Said

from lockfast.backends.postgresql.exchange import name_of
from lockfast.backends.postgresql.schema import PostgresqlTables
from lockfast.backends.postgresql.statements import PostgresqlStatements


@pytest.fixture(scope="session")
def said() -> Said:
    """Statement names, which are sent whether or not the statement is already prepared."""
    found = PostgresqlStatements(PostgresqlTables(), namespace="lockfast")
    return Said(*(name_of(one) for one in (found._take, found._take_new, found._release)))


class TestLostReplies(LostReplies):
    """The tests for every SQL store."""
