"""Ringing those whom a verb let in or turned away: in the transaction that did it, or here.

A notification is heard when, and if, the transaction is committed. It keeps all others that
notify from committing at the same time, on the whole server. So only those are notified who
listen for it, and nobody of our own client, who is rung here.

Whoever is let in may be dead, and then nobody would tell the line. So the next of another client
is told as well, to look when the window of the first is over.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeVar

from holdfast.backends.sql.steps import AskMany
from holdfast.core.naming import storage_key
from holdfast.core.place import ADMITTED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.backends.postgresql.schema import Tables
    from holdfast.backends.sql.steps import Steps
    from holdfast.backends.sql.verbs import Decided
    from holdfast.core.place import Place

T = TypeVar("T")

WATCH = "~"
"""What stands before the claim that is to look later, in a message."""

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


def new_channel() -> str:
    """Return a channel that nobody had before; it is the bell of a waiting claim."""
    return f"holdfast_{os.urandom(8).hex()}"


class Ringing:
    """How a transaction rings, in the lines of one namespace."""

    def __init__(self, tables: Tables, *, namespace: str) -> None:
        self._namespace = namespace
        self._notify_next = _NOTIFY_NEXT.format(place=tables.place)

    def after(
        self, steps: Callable[[], Steps[Decided[T]]], *, channel: str, ours: list[str]
    ) -> Steps[T]:
        """Do the steps, and notify the others whom they have woken; may be begun anew.

        In `ours` are the claims of this channel, to be rung here once it is over.
        """
        decided = yield from steps()
        bells = [(place.bell, place.claim.id) for place in decided.woken if place.bell]
        ours[:] = [claim_id for bell, claim_id in bells if bell == channel]
        asked = []
        if others := [one for one in bells if one[0] != channel]:
            asked.append(AskMany(_NOTIFY, others))
        if watched := self._watched(decided.woken):
            asked.append(AskMany(self._notify_next, watched))
        if asked:
            yield asked
        return decided.answer

    def _watched(self, woken: Sequence[Place]) -> list[tuple[object, ...]]:
        """Return behind whom somebody has to look later: the last who was let in at each name."""
        last = {one.claim.name: one for one in woken if one.standing is ADMITTED}
        return [
            (storage_key(self._namespace, name), one.arrived, one.claim.client)
            for name, one in last.items()
        ]
