"""A keep-alive is proof only with two replies from one member in one term."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest
from backends.etcd.open_sessions import OpenSession

from lockfast import OutcomeUnknown

MANY = 20
"""More requests than one keep-alive may cost, whatever the replies are."""


@pytest.fixture
def session(flavour, server) -> Iterator[OpenSession]:
    one = OpenSession(flavour, server.url)
    yield one
    one.close()


@contextmanager
def answered_by(session: OpenSession, members: Iterator[int]) -> Iterator[list[int]]:
    """Make the replies seem to come from these members in turn; yield those used so far."""
    way, answered = session.transport._members, []
    read = way._read

    def read_from_another(request: Any, data: bytes) -> Any:
        assert len(answered) < MANY, "it is asked on and on"
        found = read(request, data)
        answered.append(next(members))
        return found._replace(header=found.header._replace(member=answered[-1]))

    way._read = read_from_another
    yield answered
    way._read = read


def test_a_member_for_each_request_proves_nothing_and_is_not_asked_on_and_on(session, caplog):
    """With a load balancer this happens: each error says what to change, and the log warns once."""
    with answered_by(session, count(1)) as answered:
        for _ in range(2):
            with pytest.raises(OutcomeUnknown, match=r"by different members.*name each member"):
                session.ask("beat", confirm=True)

    assert len(answered) == 12
    [told] = [one for one in caplog.records if one.levelname == "WARNING"]
    assert "name each member" in told.getMessage()


def test_a_heartbeat_that_another_member_broke_into_is_repeated(session):
    """A keep-alive whose two requests were answered by different members is repeated."""
    with answered_by(session, iter([1, 2, 2, 2])) as answered:
        beat = session.ask("beat", confirm=True)

    assert beat.is_confirmed
    assert answered == [1, 2, 2, 2]
