"""Ringing by NOTIFY, in the transaction that let somebody in or turned somebody away.

A notification is heard when, and if, the transaction is committed. It keeps all others that
notify from committing at the same time, on the whole server. So only those are notified who
listen for it, and nobody of our own client, who is rung here.

Whoever is let in may be dead, and then nobody would tell the line. So the next of another client
is told as well, to look when the window of the first is over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockfast.backends.sql.ringing import WATCH, Ringing
from lockfast.backends.sql.steps import AskMany
from lockfast.core.naming import storage_key
from lockfast.core.place import ADMITTED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.backends.postgresql.schema import Tables
    from lockfast.backends.sql.steps import Asked
    from lockfast.core.place import Place

NEAR = 16
"""Among so many behind the one who was let in, the next of another client is looked for."""

_NOTIFY = "SELECT pg_notify($1, $2)"
_NOTIFY_NEXT = f"""
SELECT pg_notify(other.bell, '{WATCH}' || other.id) FROM (
    SELECT bell, id FROM (
        SELECT arrived, bell, id, client FROM {{place}}
        WHERE key = $1 AND arrived > $2 AND standing = 3 ORDER BY arrived LIMIT {NEAR}
    ) AS near WHERE client <> $3 ORDER BY arrived LIMIT 1
) AS other WHERE other.bell <> ''
"""


class Notifying(Ringing):
    """How a transaction rings, in the lines of one namespace."""

    def __init__(self, tables: Tables, *, namespace: str) -> None:
        self._namespace = namespace
        self._notify_next = _NOTIFY_NEXT.format(place=tables.place)

    def others(self, woken: Sequence[Place], *, channel: str) -> Asked:
        """See Ringing."""
        asked = []
        bells = [(one.bell, one.claim.id) for one in woken if one.bell not in ("", channel)]
        if bells:
            asked.append(AskMany(_NOTIFY, bells))
        if watched := self._watched(woken):
            asked.append(AskMany(self._notify_next, watched))
        return asked

    def _watched(self, woken: Sequence[Place]) -> list[tuple[object, ...]]:
        """Return behind whom somebody has to look later: the last who was let in at each name."""
        last = {one.claim.name: one for one in woken if one.standing is ADMITTED}
        return [
            (storage_key(self._namespace, name), one.arrived, one.claim.client)
            for name, one in last.items()
        ]
