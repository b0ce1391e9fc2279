"""The uncontended cycle, one statement each, and the look at the lines of a client.

They decide by columns of the name's own row alone, which the statement locks; how many stand in
`place` is counted in that row. The token comes with the answer as the statement's insert id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.backends.sql.steps import Ask
from holdfast.core.naming import storage_key

if TYPE_CHECKING:
    from collections.abc import Collection

    from holdfast.backends.mysql.schema import Tables
    from holdfast.backends.sql.steps import Rows
    from holdfast.model import Claim

# Of the two clocks of a statement this one is read when it is called, so after the row was waited
# for. The session's time zone is UTC.
MICROSECONDS = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6))"
NOW = f"({MICROSECONDS} / 1e6)"

# In an UPDATE each assignment sees what those before it have set: the token is that of the record.
_TAKE = f"""
UPDATE {{door}} SET last_token = LAST_INSERT_ID(GREATEST(last_token + 1, {MICROSECONDS})),
    token = last_token, client = %s, owner = %s, party = %s, weight = %s, ttl = %s,
    lock_delay = %s, min_hold = %s, standing = 0, since = {NOW}, until = {NOW} + %s, bell = '',
    capacity = %s, id = %s
WHERE `key` = %s AND id = '' AND crowd = 0
"""
_RELEASE = f"""
UPDATE {{door}} SET id = '', client = '', owner = '', party = NULL, until = 0
WHERE `key` = %s AND id = %s AND crowd = 0 AND standing = 0 AND until > {NOW}
    AND since + min_hold <= {NOW}
"""
# A lease or a window that has ended does not end by itself: somebody has to come to the door, and
# those in front may all be dead.
_LINES = f"""
SELECT p.id, NOT EXISTS (
    SELECT 1 FROM {{place}} AS q
    WHERE q.`key` = p.`key` AND q.standing = 3 AND q.arrived < p.arrived
), EXISTS (
    SELECT 1 FROM {{door}} AS d
    WHERE d.`key` = p.`key` AND d.id <> '' AND d.standing < 3 AND d.until <= {NOW}
) OR EXISTS (
    SELECT 1 FROM {{place}} AS q
    WHERE q.`key` = p.`key` AND q.standing < 3 AND q.until <= {NOW}
)
FROM {{place}} AS p WHERE p.client IN (CLIENTS) AND p.standing = 3
"""


class Statements:
    """The statements on one pair of tables, for the names of one namespace."""

    def __init__(self, tables: Tables, *, namespace: str) -> None:
        self._namespace = namespace
        self._take, self._release, self._lines = (
            one.format(door=tables.door, place=tables.place) for one in (_TAKE, _RELEASE, _LINES)
        )

    def take(self, claim: Claim) -> Ask:
        """Grant to one who comes to an empty door whose name is known; see `token_in`."""
        values = (
            claim.client,
            claim.owner,
            claim.party,
            claim.weight,
            claim.ttl,
            claim.lock_delay,
            claim.min_hold,
            claim.ttl,
            claim.capacity,
            claim.id,
            self._key(claim),
        )
        return Ask(self._take, values)

    def release(self, claim: Claim) -> Ask:
        """End the hold of one who is alone; see `is_done`."""
        return Ask(self._release, (self._key(claim), claim.id))

    def lines(self, clients: Collection[str]) -> Ask:
        """Ask for what a look shows of all claims of these clients that wait; see `Sight`."""
        marks = ", ".join(["%s"] * len(clients))
        return Ask(self._lines.replace("CLIENTS", marks), tuple(clients))

    def _key(self, claim: Claim) -> bytes:
        return storage_key(self._namespace, claim.name)


def is_done(rows: Rows) -> bool:
    """Whether a statement that writes has changed a row."""
    [(changed, _)] = rows
    return bool(changed)


def token_in(rows: Rows) -> int | None:
    """Return the token of a claim that was let in, None if it was not."""
    [(changed, token)] = rows
    return int(token) if changed else None
