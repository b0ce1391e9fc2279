"""What creating and dropping the tables guarantees on every SQL server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lockfast import ConfigurationError
from lockfast.backends.sql._async import maintenance as aio
from lockfast.backends.sql._sync import maintenance as threads


def by(verb: str) -> Callable[..., Any]:
    def call(transport: Any, tables: Any) -> Any:
        kind = threads if transport.flavour.name == "sync" else aio
        deadline = transport.flavour.clock.now() + 20
        return transport.flavour.call(
            getattr(kind, verb), transport.inner, tables, deadline=deadline
        )

    return call


made, dropped, are_there = map(by, ("make_tables", "drop_tables", "tables_exist"))


class MakingLaws:
    """Needs the fixtures `unmade`, tables that do not exist yet, and `run`, which runs SQL."""

    def test_they_are_made_once(self, transport, unmade) -> None:
        assert made(transport, unmade)
        assert not made(transport, unmade)
        assert are_there(transport, unmade)

    def test_many_may_make_them_at_once(self, transport, unmade) -> None:
        tasks = [transport.flavour.start(made, transport, unmade) for _ in range(6)]

        assert sum(one.result() for one in tasks) >= 1
        assert are_there(transport, unmade)

    def test_what_half_of_is_there_is_completed(self, transport, run, unmade) -> None:
        made(transport, unmade)
        run(f"DROP TABLE {unmade.place}")

        assert made(transport, unmade)
        assert are_there(transport, unmade)

    def test_they_are_dropped_once(self, transport, unmade) -> None:
        made(transport, unmade)

        assert dropped(transport, unmade)
        assert not dropped(transport, unmade)
        assert not are_there(transport, unmade)

    def test_a_table_of_somebody_else_is_not_dropped(self, transport, run, unmade) -> None:
        run(f"CREATE TABLE {unmade.place} (theirs int)")

        with pytest.raises(ConfigurationError, match="is not Lockfast's place table"):
            dropped(transport, unmade)

        assert [tuple(row) for row in run(f"SELECT count(*) FROM {unmade.place}")] == [(0,)]
