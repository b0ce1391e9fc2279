"""Each statement of the uncontended cycle on both servers, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
from backends.mysql import each_server

from lockfast.backends.mysql.statements import MysqlStatements
from lockfast.core.naming import storage_key
from lockfast.model import Claim

OWNER = '{"host": "here", "pid": 1, "label": "", "context": ""}'
KEY = storage_key("test", "door")

server = each_server.server


def claim(claim_id: str) -> Claim:
    return Claim(claim_id, "door", "client", OWNER, 1, 1, 10.0)


class OneDoor:
    """The statements of one name, each run in a transaction of its own."""

    def __init__(self, transport, server, tables) -> None:
        self._transport, self._server, self._tables = transport, server, tables
        self._statements = MysqlStatements(tables, namespace="test")

    def token(self, verb: str, *arguments: Any) -> int | None:
        """Return the token of what the statement did, or None if it was refused."""
        asked = getattr(self._statements, verb)(*arguments)
        return self._statements.token_in(self._transport.run(asked))

    def row(self, *columns: str, table: str = "door") -> list[Any]:
        statement = f"SELECT {', '.join(columns)} FROM {getattr(self._tables, table)}"
        [found] = self._server.run(statement, database="test")
        return list(found)

    def change(self, assignments: str) -> None:
        self._server.run(f"UPDATE {self._tables.door} SET {assignments}", database="test")

    def admit(self, claim_id: str, *, until: float) -> None:
        """Add an admitted claim, as the release of another claim does."""
        self._server.run(
            f"INSERT INTO {self._tables.place} (`key`, arrived, id, client, owner, weight, ttl,"
            " lock_delay, min_hold, standing, until, since, token, bell)"
            f" VALUES (X'{KEY.hex()}', 1, '{claim_id}', 'client', '', 1, 10, 0, 0, 1, {until}, 0,"
            " 7, '')",
            database="test",
        )


@pytest.fixture
def door(transport, server, tables) -> OneDoor:
    return OneDoor(transport, server, tables)


def test_a_name_that_is_held_is_not_taken(door) -> None:
    first = door.token("take_new", claim("a"))

    assert door.token("take", claim("b")) is None
    assert door.token("take_new", claim("b")) is None

    assert door.row("id", "token", "last_token") == ["a", first, first]


@pytest.mark.parametrize("assignments", ["crowd = 1", "until = 1", "standing = 1", "id = 'b'"])
def test_only_who_holds_alone_is_released_so(door, assignments) -> None:
    """Another claim's hold must not end, and if claims wait, the line has to move."""
    door.token("take_new", claim("a"))
    door.change(assignments)
    before = door.row("id", "until", "standing")

    assert door.token("release", claim("a")) is None

    assert door.row("id", "until", "standing") == before


def test_an_admission_is_confirmed_within_its_window(door) -> None:
    door.token("take_new", claim("a"))
    door.admit("b", until=9e9)

    assert door.token("confirm", claim("b"), 1) == 7

    standing, until, since = door.row("standing", "until", "since", table="place")
    assert standing == 0
    assert until == pytest.approx(since + 10, abs=0.001)


def test_an_admission_is_not_confirmed_after_its_window(door) -> None:
    """The next in line may be let in from then on, although the entry is still there."""
    door.token("take_new", claim("a"))
    door.admit("b", until=1.0)

    assert door.token("confirm", claim("b"), 1) is None

    assert door.row("standing", "until", table="place") == [1, 1.0]


def test_an_admission_is_not_confirmed_for_another_claim(door) -> None:
    door.token("take_new", claim("a"))
    door.admit("b", until=9e9)

    assert door.token("confirm", claim("c"), 1) is None
