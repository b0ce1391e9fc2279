"""One statement that looks at many lines: whether a claim still waits, and who is inside."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from lockfast.backends.sql.lines import Sight
from lockfast.core.naming import storage_key
from lockfast.core.place import ADMITTED, CLOSING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.backends.sql.lines import Glance
    from lockfast.backends.sql.statements import Statements
    from lockfast.backends.sql.steps import Ask, Rows
    from lockfast.core.place import Place
    from lockfast.model import Held


class Looking:
    """The look at the lines of one namespace."""

    def __init__(self, statements: Statements, *, namespace: str) -> None:
        self._statements = statements
        self._namespace = namespace

    def request(self, glances: Sequence[Glance]) -> Ask:
        """Look for these claims."""
        wanted = [
            {
                "number": number,
                "key": storage_key(self._namespace, one.name).hex(),
                "id": one.claim_id,
                "arrived": one.arrived,
            }
            for number, one in enumerate(glances)
        ]
        return self._statements.look(json.dumps(wanted))

    def sights(self, glances: Sequence[Glance], rows: Rows) -> list[Sight | None]:
        """Return what was seen of each, None where there is no such name."""
        seen = {number: Sight(*rest) for number, *rest in rows}
        return [seen.get(number) for number in range(len(glances))]


def sight_of(places: Sequence[Place], held: Held, *, now: float) -> Sight:
    """Return what the answer to a claim shows that was put in line."""
    ends = [one.until - now for one in places if one.standing <= CLOSING]
    windows = [one.until - now for one in places if one.standing is ADMITTED]
    return Sight(
        is_waiting=True,
        is_head=held.place == 1,
        ends_in=min(ends, default=None),
        window_ends_in=min(windows, default=None),
    )
