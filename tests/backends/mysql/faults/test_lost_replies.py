"""Statements that the server has done, and whose answers never came; or that came too late."""

from __future__ import annotations

import pytest
from lost_replies import LostReplies, Said
from servers.proxy import Message


@pytest.fixture(scope="session")
def said() -> Said:
    return Said(
        take=b"LAST_INSERT_ID(GREATEST(last_token",
        take_new=commits_a_grant,
        release=b"SET id = '', client = ''",
    )


def commits_a_grant(request: Message) -> bool:
    """Whether it ends a transaction that lets somebody in, and not one that buries a claim."""
    is_hold = b"standing = 0" in request.data and b"id = ''" not in request.data
    return b"COMMIT" in request.data and is_hold


class TestLostReplies(LostReplies):
    """What they do to a SQL store."""
