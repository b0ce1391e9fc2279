"""The answer of one who was let in: one statement that makes its window a hold of its ttl."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.backends.postgresql.statements import NOW
from holdfast.backends.sql.steps import Ask
from holdfast.core.naming import storage_key

if TYPE_CHECKING:
    from holdfast.backends.postgresql.schema import Tables
    from holdfast.model import Claim

# The name's row is locked first, as by everybody who changes a place: else one who has just read
# that the window is over would delete what we have made a hold. The place itself may have changed
# while we waited for that; then PostgreSQL looks at the changed one.
_CONFIRM = f"""
WITH d AS MATERIALIZED (SELECT key FROM {{door}} WHERE key = $1 FOR UPDATE)
UPDATE {{place}} AS p SET standing = 0, since = c.now, until = c.now + $4
FROM d, (SELECT {NOW} AS now) AS c
WHERE p.key = d.key AND p.arrived = $2 AND p.id = $3 AND p.standing = 1 AND p.until > {NOW}
RETURNING p.token
"""


class Confirming:
    """The statement on one pair of tables, for the names of one namespace."""

    def __init__(self, tables: Tables, *, namespace: str) -> None:
        self._namespace = namespace
        self._confirm = _CONFIRM.format(door=tables.door, place=tables.place)

    def confirm(self, claim: Claim, arrived: int) -> Ask:
        """Hold by what a release has given: one row with the token, or none."""
        key = storage_key(self._namespace, claim.name)
        return Ask(self._confirm, (key, arrived, claim.id, claim.ttl))
