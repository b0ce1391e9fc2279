"""One statement that looks at many lines: whether a claim still waits, and who is inside."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from holdfast.backends.postgresql.lines import Sight
from holdfast.backends.postgresql.statements import NOW
from holdfast.backends.sql.steps import Ask
from holdfast.core.naming import storage_key
from holdfast.core.place import ADMITTED, CLOSING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.backends.postgresql.lines import Glance
    from holdfast.backends.postgresql.schema import Tables
    from holdfast.backends.sql.steps import Rows
    from holdfast.core.place import Place
    from holdfast.model import Held

_LOOK = f"""
SELECT r.number,
    EXISTS (SELECT FROM {{place}} AS p
        WHERE p.key = d.key AND p.arrived = r.arrived AND p.id = r.id AND p.standing = 3),
    NOT EXISTS (SELECT FROM {{place}} AS p WHERE p.key = d.key AND p.arrived >= d.head
        AND p.arrived < r.arrived AND p.standing = 3),
    least(CASE WHEN d.id <> '' AND d.standing < 3 THEN d.until END,
        (SELECT min(p.until) FROM {{place}} AS p
         WHERE p.key = d.key AND p.standing <> 3 AND p.standing < 3)) - {NOW},
    (SELECT min(p.until) FROM {{place}} AS p
     WHERE p.key = d.key AND p.standing <> 3 AND p.standing = 1) - {NOW}
FROM json_to_recordset($1::json) AS r (number int, key text, id text, arrived bigint)
JOIN {{door}} AS d ON d.key = decode(r.key, 'hex')
"""


class Looking:
    """The look at the lines of one namespace."""

    def __init__(self, tables: Tables, *, namespace: str) -> None:
        self._namespace = namespace
        self._look = _LOOK.format(door=tables.door, place=tables.place)

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
        return Ask(self._look, (json.dumps(wanted),))

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
