"""The statements of the uncontended cycle, for one operation or for a batch of them.

The statements decide only by the columns of the name's own row. If another transaction changes the
row while a statement waits for it, PostgreSQL evaluates the changed row, but a subquery would still
see the old versions of other rows. So the row itself counts the entries in `place`.

The time comes from a function that reads the clock when it is called. In an UPDATE, that call may
come before the wait for the row, but only if no transaction changed the row meanwhile. Then no
other lease has begun, and our lease seems a little older than it is, which does no harm.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from lockfast.backends.postgresql.schema import CLAIM_COLUMNS
from lockfast.backends.sql.batch import as_json
from lockfast.backends.sql.statements import (
    REAP_AFTER_SECONDS,
    Reaper,
    StoreStatements,
    values_of,
)
from lockfast.backends.sql.steps import Query

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.backends.postgresql.schema import PostgresqlTables
    from lockfast.backends.sql.batch import Operation
    from lockfast.backends.sql.steps import Rows, Steps
    from lockfast.model import Claim

NOW = "date_part('epoch', clock_timestamp())"
"""The server's time in seconds, in SQL. It does not use `extract`, which makes a decimal number
first."""

# The token comes from the start time of the statement, which is the same at each use.
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

# Rows that other transactions have locked are skipped, and their operations go through the door.
# Otherwise one name whose transaction does not end would hold up the whole batch. Only rows that
# will change are locked, so that a refused operation blocks nobody. The only wait here is for a
# transaction that inserts the same name, and all transactions insert in key order. An upsert would
# also wait for a transaction that has locked a name inserted meanwhile, and two such transactions
# could wait for each other.
#
# Nevertheless, an upsert changes the rows that we locked, because an upsert always uses the index.
# An UPDATE that joins the list may read the whole table, and a plan made while the table was small
# is kept when the table has grown. For the same reason, the test whether a name is known does not
# use EXISTS. The column `standing` passes the kind of operation.
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
# Lock the name's row first, as every change of an entry does. Otherwise a transaction that has just
# read that the admission window has ended would delete the entry that we have made a hold. The
# entry may have changed while we waited for the lock; then PostgreSQL evaluates the changed entry.
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
INSERT INTO {{door}} (key, {", ".join(CLAIM_COLUMNS)}, capacity, last_token, crowd, head)
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


class PostgresqlStatements(StoreStatements):
    """Builds queries, without running them."""

    def __init__(self, tables: PostgresqlTables, *, namespace: str) -> None:
        super().__init__(namespace=namespace)
        self._take, self._take_new, self._release = tables.fill(_TAKE, _TAKE_NEW, _RELEASE)
        self._together, self._confirm, self._look = tables.fill(_TOGETHER, _CONFIRM, _LOOK)
        self._make, self._lock_empty = tables.fill(_MAKE, _LOCK_EMPTY)

    def take(self, claim: Claim) -> Query:
        return Query(self._take, (self._key(claim), claim.id, *values_of(claim)))

    def take_new(self, claim: Claim) -> Query:
        return Query(self._take_new, (self._key(claim), claim.id, *values_of(claim)))

    def confirm(self, claim: Claim, arrived: int) -> Query:
        return Query(self._confirm, (self._key(claim), arrived, claim.id, claim.ttl))

    def token_in(self, rows: Rows) -> int | None:
        return int(rows[0][0]) if rows else None

    def together(self, operations: Sequence[Operation]) -> Sequence[Query]:
        """Return the batch as one statement."""
        return (Query(self._together, (as_json(operations, namespace=self._namespace),)),)


# Removes idle names from the tables.

_OLD = f"last_token < ({NOW} - {REAP_AFTER_SECONDS}) * 1000000"
# The lease, and any lock_delay or min_hold that outlasted it, ended more than REAP_AFTER_SECONDS
# ago. So the holder died, and nobody has asked for the name since.
_OVER = f"greatest(until + lock_delay, since + min_hold) < {NOW} - {REAP_AFTER_SECONDS}"
_NOBODY = f"{_OLD} AND (id = '' OR {_OVER})"

# Rows in use are locked, and the reaper skips them, because a waiting reaper would make other
# transactions wait behind it. The condition is checked on the row as it is once it is locked. The
# keys are passed as arrays, because for a join the planner may read a whole table for the sake of a
# few rows.
_SWEEP = f"""
WITH seen AS MATERIALIZED (
    SELECT key, crowd, {_NOBODY} AS is_left FROM {{door}} WHERE key > $1 ORDER BY key LIMIT $2
), idle AS MATERIALIZED (
    SELECT key FROM {{door}}
    WHERE key = ANY (ARRAY(SELECT seen.key FROM seen WHERE is_left AND seen.crowd = 0))
        AND crowd = 0 AND {_NOBODY}
    ORDER BY key FOR UPDATE SKIP LOCKED
), swept AS (
    DELETE FROM {{door}} WHERE key = ANY (ARRAY(SELECT key FROM idle)) AND crowd = 0 AND {_NOBODY}
    RETURNING 1
)
SELECT (SELECT count(*) FROM seen), (SELECT key FROM seen ORDER BY key DESC LIMIT 1),
    (SELECT count(*) FROM swept), EXISTS (SELECT FROM seen WHERE is_left AND crowd > 0)
"""

# Claims that died in line, and tombstones, leave rows besides the record. Those rows are read once
# the name is locked, in a separate statement, because the statement that locks sees them as they
# were before.
_LOCK_IDLE = f"""
SELECT encode(key, 'hex') FROM {{door}}
WHERE key > $1 AND key <= $2 AND crowd > 0 AND {_NOBODY} ORDER BY key FOR UPDATE SKIP LOCKED
"""
# The entry of a waiter never expires. But if no entry was inside for a day, a live waiter would
# have been admitted.
_SWEEP_LINES = f"""
WITH over AS MATERIALIZED (
    SELECT decode(one, 'hex') AS key FROM json_array_elements_text($1::json) AS one
    WHERE NOT EXISTS (
        SELECT FROM {{place}} AS p
        WHERE p.key = decode(one, 'hex') AND p.standing <> 3 AND NOT ({_OVER})
    )
), left_behind AS (
    DELETE FROM {{place}} WHERE key = ANY (ARRAY(SELECT key FROM over))
), swept AS (
    DELETE FROM {{door}} WHERE key = ANY (ARRAY(SELECT key FROM over)) RETURNING 1
)
SELECT count(*) FROM swept
"""


class PostgresqlReaper(Reaper):
    """Removes idle names in the statement that finds them, and dead lines in steps."""

    def __init__(self, tables: PostgresqlTables) -> None:
        self._reap, self._lock, self._reap_lines = tables.fill(_SWEEP, _LOCK_IDLE, _SWEEP_LINES)

    def lines(self, between: tuple[bytes, bytes]) -> Steps[int]:
        """Remove names with only dead claims in line, after the first key and up to the second."""
        [found] = yield [Query(self._lock, between)]
        keys = [key for (key,) in found]
        if not keys:
            return 0
        [[(gone,)]] = yield [Query(self._reap_lines, (json.dumps(keys),))]
        return int(gone)
