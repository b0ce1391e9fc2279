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
    from holdfast.backends.postgresql.values import Rows
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
# that who comes in vain is in nobody's way. It stays locked until the end: so only a name that
# nobody knows is inserted, and waited for while another makes it known, in the order of the keys.
# A row that is yet to be inserted says in `standing` what it is for; one who begins is 0 there.
# Whether a name is known is not asked by EXISTS: for that the server may read the whole table.
_MAY = f"""CASE {{what}}
    WHEN 0 THEN d.id = '' AND d.crowd = 0
    WHEN 1 THEN d.id = {{id}} AND d.crowd = 0 AND d.standing = 0 AND d.until > {NOW}
        AND d.since + d.min_hold <= {NOW}
    ELSE d.id = {{id}} AND d.standing <= 1 AND d.until > {NOW} END"""
_TOGETHER = f"""
INSERT INTO {{door}} AS d (key, id, client, owner, party, weight, ttl, lock_delay, min_hold,
    standing, until, since, token, bell, capacity, last_token, crowd, head)
SELECT k.key, r.id, coalesce(r.client, ''), coalesce(r.owner, ''), r.party, coalesce(r.weight, 1),
    coalesce(r.ttl, 0), coalesce(r.lock_delay, 0), coalesce(r.min_hold, 0), r.what,
    c.now + coalesce(r.ttl, 0), c.now, c.token, '', coalesce(r.capacity, 1), c.token, 0, 0
FROM json_to_recordset($1::json) AS r (what smallint, key text, id text, client text, owner text,
        party text, weight bigint, ttl float8, lock_delay float8, min_hold float8,
        capacity bigint)
    CROSS JOIN (SELECT now, (now * 1000000)::bigint AS token FROM (SELECT {NOW} AS now) AS t) AS c
    CROSS JOIN LATERAL (SELECT decode(r.key, 'hex') AS key) AS k
    LEFT JOIN LATERAL (
        SELECT true AS is_ours FROM {{door}} AS d
        WHERE d.key = k.key AND {_MAY.format(what="r.what", id="r.id")}
        FOR UPDATE SKIP LOCKED
    ) AS l ON true
WHERE l.is_ours OR r.what = 0 AND (SELECT true FROM {{door}} AS e WHERE e.key = k.key) IS NULL
ORDER BY 1
ON CONFLICT (key) DO UPDATE SET
    id = CASE excluded.standing WHEN 0 THEN excluded.id WHEN 1 THEN '' ELSE d.id END,
    client = CASE excluded.standing WHEN 0 THEN excluded.client WHEN 1 THEN '' ELSE d.client END,
    owner = CASE excluded.standing WHEN 0 THEN excluded.owner WHEN 1 THEN '' ELSE d.owner END,
    party = CASE excluded.standing WHEN 0 THEN excluded.party WHEN 1 THEN NULL ELSE d.party END,
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
    last_token = CASE excluded.standing WHEN 0 THEN greatest(d.last_token + 1, excluded.token)
        ELSE d.last_token END
WHERE {_MAY.format(what="excluded.standing", id="excluded.id")}
RETURNING key, token
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
