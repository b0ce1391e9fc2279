"""The uncontended cycle, one statement each; and many of them as one statement.

They decide by columns of the name's own row alone. While one waits for the row, another may
change it; then PostgreSQL looks at the changed row, but a subquery about other rows would still
see what was there before: so how many stand in `place` is counted in the row itself.

The time is read by a function that looks at the clock when it is called. In an UPDATE that may
be before the row was waited for, if nobody changed the row meanwhile. Then nobody's lease has
begun either, and ours seems a little older than it is, which does no harm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockfast.backends.postgresql.schema import CLAIM
from lockfast.backends.sql.deeds import as_json, tokens_in
from lockfast.backends.sql.steps import Ask, AskMany
from lockfast.core.naming import storage_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.backends.postgresql.schema import Tables
    from lockfast.backends.sql.deeds import Deed
    from lockfast.backends.sql.steps import Rows
    from lockfast.model import Claim

NOW = "date_part('epoch', clock_timestamp())"
"""Not by `extract`, which makes a decimal number first."""

# By the time when the statement came, which is the same wherever it is asked for.
_NEXT = "greatest(d.last_token + 1, (date_part('epoch', statement_timestamp()) * 1e6)::bigint)"

_TAKE = f"""
UPDATE {{door}} AS d SET id = $2, client = $3, owner = $4, party = $5, weight = $6, ttl = $7,
    lock_delay = $8, min_hold = $9, standing = 0, until = {NOW} + $7, since = {NOW},
    token = {_NEXT}, bell = '', capacity = $10, last_token = {_NEXT}
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
# What is locked is changed by an upsert all the same: it always goes by the index. An UPDATE that
# joins the list may read the whole table, and where the plan was made while that was small, it
# still does when it has grown. `standing` carries what is wanted of the row. For the same reason
# it is not asked by EXISTS whether a name is known.
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
    INSERT INTO {{door}} AS d (key, id, client, owner, party, weight, ttl, lock_delay, min_hold,
        standing, until, since, token, bell, capacity, last_token, crowd, head)
    SELECT key, id, client, owner, party, weight, ttl, lock_delay, min_hold, what, now + ttl, now,
        token, '', capacity, token, 0, 0
    FROM r WHERE is_ours
    ON CONFLICT (key) DO UPDATE SET
        id = CASE excluded.standing WHEN 0 THEN excluded.id WHEN 1 THEN '' ELSE d.id END,
        client = CASE excluded.standing WHEN 0 THEN excluded.client WHEN 1 THEN ''
            ELSE d.client END,
        owner = CASE excluded.standing WHEN 0 THEN excluded.owner WHEN 1 THEN '' ELSE d.owner END,
        party = CASE excluded.standing WHEN 0 THEN excluded.party WHEN 1 THEN NULL
            ELSE d.party END,
        weight = CASE excluded.standing WHEN 0 THEN excluded.weight ELSE d.weight END,
        ttl = CASE excluded.standing WHEN 0 THEN excluded.ttl ELSE d.ttl END,
        lock_delay = CASE excluded.standing WHEN 0 THEN excluded.lock_delay ELSE d.lock_delay END,
        min_hold = CASE excluded.standing WHEN 0 THEN excluded.min_hold ELSE d.min_hold END,
        standing = 0,
        until = CASE excluded.standing WHEN 1 THEN 0 ELSE excluded.until END,
        since = CASE excluded.standing WHEN 0 THEN excluded.since ELSE d.since END,
        token = CASE excluded.standing WHEN 0 THEN greatest(d.last_token + 1, excluded.token)
            ELSE d.token END,
        bell = '',
        capacity = CASE excluded.standing WHEN 0 THEN excluded.capacity ELSE d.capacity END,
        last_token = CASE excluded.standing WHEN 0
            THEN greatest(d.last_token + 1, excluded.token) ELSE d.last_token END
    RETURNING d.key, d.token
)
SELECT key, token FROM made UNION ALL SELECT key, token FROM changed
"""
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
_MAKE = f"""
INSERT INTO {{door}} (key, {", ".join(CLAIM)}, capacity, last_token, crowd, head)
SELECT decode(k, 'hex'), '', '', '', NULL, 0, 0, 0, 0, 0, 0, 0, 0, '', 0, 0, 0, 0
FROM json_array_elements_text($1::json) AS k ORDER BY 1
ON CONFLICT (key) DO NOTHING
"""
_LOCK_EMPTY = """
SELECT key FROM {door}
WHERE key IN (SELECT decode(k, 'hex') FROM json_array_elements_text($1::json) AS k)
    AND id = '' AND crowd = 0
ORDER BY key FOR UPDATE
"""


class Statements:
    """See the protocol. Makes the requests; runs none."""

    def __init__(self, tables: Tables, *, namespace: str) -> None:
        self._namespace = namespace
        self._take, self._take_new, self._release, self._together, self._confirm = (
            one.format(door=tables.door, place=tables.place)
            for one in (_TAKE, _TAKE_NEW, _RELEASE, _TOGETHER, _CONFIRM)
        )
        self._look, self._make, self._lock_empty = (
            one.format(door=tables.door, place=tables.place) for one in (_LOOK, _MAKE, _LOCK_EMPTY)
        )

    # -- for one -----------------------------------------------------------------------

    def take(self, claim: Claim) -> Ask:
        """See the protocol."""
        return Ask(self._take, self._values(claim))

    def take_new(self, claim: Claim) -> Ask:
        """See the protocol."""
        return Ask(self._take_new, self._values(claim))

    def release(self, claim: Claim) -> Ask:
        """See the protocol."""
        return Ask(self._release, (self._key(claim), claim.id))

    def confirm(self, claim: Claim, arrived: int) -> Ask:
        """See the protocol."""
        return Ask(self._confirm, (self._key(claim), arrived, claim.id, claim.ttl))

    def token_in(self, rows: Rows) -> int | None:
        """See the protocol."""
        return int(rows[0][0]) if rows else None

    # -- for several -------------------------------------------------------------------

    def together(self, deeds: Sequence[Deed]) -> Sequence[Ask]:
        """See the protocol: one statement."""
        return (Ask(self._together, (as_json(deeds, namespace=self._namespace),)),)

    def done(self, deeds: Sequence[Deed], answers: Sequence[Rows]) -> list[int | None]:
        """See the protocol."""
        return tokens_in(answers[0], deeds, namespace=self._namespace)

    def look(self, wanted: str) -> Ask:
        """See the protocol."""
        return Ask(self._look, (wanted,))

    def make(self, keys: str) -> AskMany:
        """See the protocol."""
        return AskMany(self._make, [(keys,)])

    def lock_empty(self, keys: str) -> Ask:
        """See the protocol."""
        return Ask(self._lock_empty, (keys,))

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
