"""The uncontended cycle, one statement each; and many of them as one statement.

They decide by columns of the name's own row alone. While one waits for the row, another may
change it; then PostgreSQL looks at the changed row, but a subquery about other rows would still
see what was there before: so how many stand in `place` is counted in the row itself.

The time is read by a function that looks at the clock when it is called. In an UPDATE that may
be before the row was waited for, if nobody changed the row meanwhile. Then nobody's lease has
begun either, and ours seems a little older than it is, which does no harm.
"""

from __future__ import annotations

import json
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple, cast

from holdfast.backends.postgresql.exchange import Request
from holdfast.core.naming import storage_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.backends.postgresql.schema import Tables
    from holdfast.backends.sql.steps import Rows
    from holdfast.model import Claim

NOW = "extract(epoch from clock_timestamp())::float8"

_TAKE = f"""
UPDATE {{door}} AS d SET id = $2, client = $3, owner = $4, party = $5, weight = $6, ttl = $7,
    lock_delay = $8, min_hold = $9, standing = 0, until = c.now + $7, since = c.now,
    token = greatest(d.last_token + 1, (c.now * 1000000)::bigint), bell = '', capacity = $10,
    last_token = greatest(d.last_token + 1, (c.now * 1000000)::bigint)
FROM (SELECT {NOW} AS now) AS c
WHERE d.key = $1 AND d.id = '' AND d.crowd = 0
RETURNING d.token
"""
_TAKE_NEW = f"""
INSERT INTO {{door}} AS d (key, id, client, owner, party, weight, ttl, lock_delay, min_hold,
    standing, until, since, token, bell, capacity, last_token, crowd, head)
SELECT $1::bytea, $2::text, $3::text, $4::text, $5::text, $6::bigint, $7::float8, $8::float8,
    $9::float8, 0, c.now + $7::float8, c.now, (c.now * 1000000)::bigint, '', $10::bigint,
    (c.now * 1000000)::bigint, 0, 0
FROM (SELECT {NOW} AS now) AS c
ON CONFLICT (key) DO UPDATE SET id = excluded.id, client = excluded.client,
    owner = excluded.owner, party = excluded.party, weight = excluded.weight,
    ttl = excluded.ttl, lock_delay = excluded.lock_delay, min_hold = excluded.min_hold,
    standing = 0, until = {NOW} + excluded.ttl, since = {NOW},
    token = greatest(d.last_token + 1, excluded.token), bell = '', capacity = excluded.capacity,
    last_token = greatest(d.last_token + 1, excluded.token)
WHERE d.id = '' AND d.crowd = 0
RETURNING d.token
"""
_RELEASE = f"""
UPDATE {{door}} SET id = '', client = '', owner = '', party = NULL, until = 0
WHERE key = $1 AND id = $2 AND crowd = 0 AND standing = 0 AND until > {NOW}
    AND since + min_hold <= {NOW}
RETURNING true
"""

# Rows that others have locked are left out, and go through the door: one name whose transaction
# does not end would otherwise hold up all who go with it. Only what is to be changed is locked, so
# that who comes in vain is in nobody's way. Nobody waits here but for one who makes the same name
# known, and all do that in the order of the keys; an upsert would also wait for whoever has locked
# what was made known meanwhile, and two of them for each other.
# Whether a name is known is not asked by EXISTS: for that the server may read the whole table.
_TOGETHER = f"""
WITH r AS MATERIALIZED (
    SELECT k.key, j.what, j.id, coalesce(j.client, '') AS client, coalesce(j.owner, '') AS owner,
        j.party, coalesce(j.weight, 1) AS weight, coalesce(j.ttl, 0) AS ttl,
        coalesce(j.lock_delay, 0) AS lock_delay, coalesce(j.min_hold, 0) AS min_hold,
        coalesce(j.capacity, 1) AS capacity, c.now, (c.now * 1000000)::bigint AS token, l.is_ours
    FROM json_to_recordset($1::json) AS j (what smallint, key text, id text, client text,
            owner text, party text, weight bigint, ttl float8, lock_delay float8,
            min_hold float8, capacity bigint)
        CROSS JOIN (SELECT {NOW} AS now) AS c
        CROSS JOIN LATERAL (SELECT decode(j.key, 'hex') AS key) AS k
        LEFT JOIN LATERAL (
            SELECT true AS is_ours FROM {{door}} AS d
            WHERE d.key = k.key AND CASE j.what
                WHEN 0 THEN d.id = '' AND d.crowd = 0
                WHEN 1 THEN d.id = j.id AND d.crowd = 0 AND d.standing = 0 AND d.until > {NOW}
                    AND d.since + d.min_hold <= {NOW}
                ELSE d.id = j.id AND d.standing <= 1 AND d.until > {NOW} END
            FOR UPDATE SKIP LOCKED
        ) AS l ON true
), made AS (
    INSERT INTO {{door}} (key, id, client, owner, party, weight, ttl, lock_delay, min_hold,
        standing, until, since, token, bell, capacity, last_token, crowd, head)
    SELECT key, id, client, owner, party, weight, ttl, lock_delay, min_hold, 0, now + ttl, now,
        token, '', capacity, token, 0, 0
    FROM r WHERE what = 0 AND is_ours IS NULL
        AND (SELECT true FROM {{door}} AS e WHERE e.key = r.key) IS NULL
    ORDER BY key
    ON CONFLICT (key) DO NOTHING
    RETURNING key, token
), changed AS (
    UPDATE {{door}} AS d SET
        id = CASE r.what WHEN 0 THEN r.id WHEN 1 THEN '' ELSE d.id END,
        client = CASE r.what WHEN 0 THEN r.client WHEN 1 THEN '' ELSE d.client END,
        owner = CASE r.what WHEN 0 THEN r.owner WHEN 1 THEN '' ELSE d.owner END,
        party = CASE r.what WHEN 0 THEN r.party WHEN 1 THEN NULL ELSE d.party END,
        weight = CASE r.what WHEN 0 THEN r.weight ELSE d.weight END,
        ttl = CASE r.what WHEN 0 THEN r.ttl ELSE d.ttl END,
        lock_delay = CASE r.what WHEN 0 THEN r.lock_delay ELSE d.lock_delay END,
        min_hold = CASE r.what WHEN 0 THEN r.min_hold ELSE d.min_hold END,
        standing = 0,
        until = CASE r.what WHEN 1 THEN 0 ELSE r.now + r.ttl END,
        since = CASE r.what WHEN 0 THEN r.now ELSE d.since END,
        token = CASE r.what WHEN 0 THEN greatest(d.last_token + 1, r.token) ELSE d.token END,
        bell = '',
        capacity = CASE r.what WHEN 0 THEN r.capacity ELSE d.capacity END,
        last_token = CASE r.what WHEN 0 THEN greatest(d.last_token + 1, r.token)
            ELSE d.last_token END
    FROM r WHERE d.key = r.key AND r.is_ours
    RETURNING d.key, d.token
)
SELECT key, token FROM made UNION ALL SELECT key, token FROM changed
"""
_NOTIFY = "SELECT pg_notify($1, $2)"


class What(IntEnum):
    """What is done to a name's row."""

    TAKE = 0
    RELEASE = 1
    RENEW = 2


class Deed(NamedTuple):
    """One thing to do for one claim; who takes a name alone says whether it is known."""

    what: What
    claim: Claim
    is_known: bool = True


class Statements:
    """The statements on one pair of tables, for the names of one namespace."""

    def __init__(self, tables: Tables, *, namespace: str) -> None:
        self._namespace = namespace
        self._take, self._take_new, self._release, self._together = (
            one.format(door=tables.door) for one in (_TAKE, _TAKE_NEW, _RELEASE, _TOGETHER)
        )

    def take(self, claim: Claim) -> Request:
        """Grant to one who comes to an empty door: one row with the token, or none.

        None also if the name is unknown; refused, it writes nothing.
        """
        return Request(self._take, self._values(claim))

    def take_new(self, claim: Claim) -> Request:
        """The same for a name that may be unknown. Refused, it costs a commit all the same."""
        return Request(self._take_new, self._values(claim))

    def release(self, claim: Claim) -> Request:
        """End the hold of one who is alone: one row, or none."""
        return Request(self._release, (self._key(claim), claim.id))

    def together(self, deeds: Sequence[Deed]) -> Request:
        """Do several at once, each for another name: a row for each that was done.

        It waits for nobody who has locked a name, except for one who makes it known. New names
        come in the order of their keys: in any other, two of these would wait for each other
        sooner or later.
        """
        return Request(
            self._together, (json.dumps([self._recorded(one.what, one.claim) for one in deeds]),)
        )

    def done(self, deeds: Sequence[Deed], rows: Rows) -> list[int | None]:
        """Return the token of each that was done, None for each that was not."""
        tokens = dict(cast("list[tuple[bytes, int]]", rows))
        return [tokens.get(self._key(one.claim)) for one in deeds]

    def _recorded(self, what: What, claim: Claim) -> dict[str, object]:
        """Return it without what the statement assumes: most of the work is to read this."""
        record: dict[str, object] = {"what": int(what), "key": self._key(claim).hex()}
        record["id"] = claim.id
        if what is not What.RELEASE:
            record["ttl"] = claim.ttl
        if what is What.TAKE:
            record["client"], record["owner"] = claim.client, claim.owner
            if claim.weight != 1 or claim.capacity != 1:
                record["weight"], record["capacity"] = claim.weight, claim.capacity
            if claim.lock_delay or claim.min_hold:
                record["lock_delay"], record["min_hold"] = claim.lock_delay, claim.min_hold
            if claim.party is not None:
                record["party"] = claim.party
        return record

    def _values(self, claim: Claim) -> tuple[object, ...]:
        return (
            self._key(claim),
            claim.id,
            claim.client,
            claim.owner,
            claim.party,
            claim.weight,
            claim.ttl,
            claim.lock_delay,
            claim.min_hold,
            claim.capacity,
        )

    def _key(self, claim: Claim) -> bytes:
        return storage_key(self._namespace, claim.name)


def notify(channel: str, message: str) -> Request:
    """Ring a client; heard when, and if, the transaction is committed."""
    return Request(_NOTIFY, (channel, message))
