"""Executed statements whose replies never arrive, and statements that arrive too late."""

from __future__ import annotations

import pytest
from backends.mysql import each_server
from lost_replies import LostReplies, Said

module_server = each_server.module_server


@pytest.fixture(scope="session")
def said() -> Said:
    return Said(
        take=b"SET last_token = LAST_INSERT_ID(GREATEST(",
        take_new=b"LAST_INSERT_ID(TIMESTAMPDIFF(",
        release=b"SET token = LAST_INSERT_ID(token), id = ''",
    )


class TestLostReplies(LostReplies):
    """The tests for every SQL store."""
