"""Statements that the server has done, and whose answers never came; or that came too late."""

from __future__ import annotations

import pytest
from lost_replies import LostReplies, Said

from lockfast.backends.postgresql.exchange import name_of
from lockfast.backends.postgresql.schema import Tables
from lockfast.backends.postgresql.statements import Statements


@pytest.fixture(scope="session")
def said() -> Said:
    """Be it prepared or not."""
    found = Statements(Tables(), namespace="lockfast")
    return Said(*(name_of(one) for one in (found._take, found._take_new, found._release)))


class TestLostReplies(LostReplies):
    """What they do to a SQL store."""
