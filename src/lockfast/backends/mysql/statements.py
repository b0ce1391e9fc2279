"""The statements of the uncontended cycle, for one operation or for many in one commit.

The statements decide only by columns of the name's own row, which they lock. That is enough because
the row counts the entries in `place`. The token is returned as the statement's insert id.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from lockfast.backends.mysql.schema import CLAIM_COLUMNS, TEXT_TYPE
from lockfast.backends.sql.batch import OperationKind, as_json
from lockfast.backends.sql.statements import (
    REAP_AFTER_SECONDS,
    Reaper,
    StoreStatements,
    values_of,
)
from lockfast.backends.sql.steps import Query, QueryMany

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lockfast.backends.mysql.schema import MysqlTables
    from lockfast.backends.sql.batch import Operation
    from lockfast.backends.sql.steps import Rows, Steps
    from lockfast.model import Claim

# SYSDATE reads the clock when it is called, and so after the wait for the row. The session's time
# zone is UTC.
MICROSECONDS = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6))"
NOW = f"({MICROSECONDS} / 1e6)"
# UTC_TIMESTAMP is the time at which the statement began. It is used in a statement that follows the
# locking statement.
BEGUN_MICROSECONDS = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"
BEGUN = f"({BEGUN_MICROSECONDS} / 1e6)"


def listed(source: str, columns: str) -> str:
    """Return the elements of a JSON list as rows; every list in our statements is read this way.

    The two servers differ here, and this is the form that both accept:

    - FOR UPDATE locks every table in its query, and MySQL cannot lock a JSON_TABLE (error 3569).
      The lock does not reach into a derived table, so the JSON_TABLE is inside one. MariaDB lacks
      `FOR UPDATE OF`.
    - Only a number may have a DEFAULT. MySQL parses the default as JSON, so '' is an error (3141);
      MariaDB does not, so '""' is two quotation marks. If a text may be missing, use COALESCE.
    """
    return f"(SELECT * FROM JSON_TABLE({source}, '$[*]' COLUMNS ({columns})) AS given)"


KEYS_TABLE = listed("%s", "k VARCHAR(1280) PATH '$'")
"""A JSON list of keys in hexadecimal, as rows."""

_EMPTY = "id = '' AND crowd = 0"

# In an UPDATE each assignment sees the values set before it, so `token` gets the new `last_token`.
_TAKE = f"""
UPDATE {{door}} SET last_token = LAST_INSERT_ID(GREATEST(last_token + 1, {MICROSECONDS})),
    token = last_token, client = %s, owner = %s, party = %s, weight = %s, ttl = %s,
    lock_delay = %s, min_hold = %s, standing = 0, since = {NOW}, until = {NOW} + ttl, bell = '',
    capacity = %s, id = %s
WHERE `key` = %s AND {_EMPTY}
"""
# In a VALUES list, too, each value sees the values before it. If the name has a row, every
# assignment checks again that the door is empty, so the assignment that fills the door, that of
# `id`, comes last. If the door is not empty, the insert id is 0, which means that there is no
# token. The number of changed rows cannot be used instead. Some connections, such as those of
# SQLAlchemy, report the number of rows found, which includes a row that was not changed.
_TAKE_NEW = f"""
INSERT INTO {{door}} (`key`, last_token, token, client, owner, party, weight, ttl, lock_delay,
    min_hold, standing, since, until, bell, capacity, crowd, head, id)
VALUES (%s, LAST_INSERT_ID({MICROSECONDS}), last_token, %s, %s, %s, %s, %s, %s, %s, 0, {NOW},
    {NOW} + ttl, '', %s, 0, 0, %s)
ON DUPLICATE KEY UPDATE
    last_token = IF({_EMPTY}, LAST_INSERT_ID(GREATEST(last_token + 1, {MICROSECONDS})),
        last_token + LAST_INSERT_ID(0)),
    token = IF({_EMPTY}, last_token, token), client = IF({_EMPTY}, %s, client),
    owner = IF({_EMPTY}, %s, owner), party = IF({_EMPTY}, %s, party),
    weight = IF({_EMPTY}, %s, weight), ttl = IF({_EMPTY}, %s, ttl),
    lock_delay = IF({_EMPTY}, %s, lock_delay), min_hold = IF({_EMPTY}, %s, min_hold),
    standing = IF({_EMPTY}, 0, standing), since = IF({_EMPTY}, {NOW}, since),
    until = IF({_EMPTY}, {NOW} + ttl, until), bell = IF({_EMPTY}, '', bell),
    capacity = IF({_EMPTY}, %s, capacity), id = IF({_EMPTY}, %s, id)
"""
_RELEASE = f"""
UPDATE {{door}} SET token = LAST_INSERT_ID(token), id = '', client = '', owner = '', party = NULL,
    until = 0
WHERE `key` = %s AND id = %s AND crowd = 0 AND standing = 0 AND until > {NOW}
    AND since + min_hold <= {NOW}
"""
# `head` is assigned to itself, so that the name's row is locked first, as in every statement that
# changes an entry. Otherwise a transaction that has just read that the admission window has ended
# would delete our new hold.
_CONFIRM = f"""
UPDATE {{door}} AS d STRAIGHT_JOIN {{place}} AS p ON p.`key` = d.`key`
SET d.head = d.head, p.token = LAST_INSERT_ID(p.token), p.standing = 0, p.since = {NOW},
    p.until = {NOW} + p.ttl
WHERE d.`key` = %s AND p.arrived = %s AND p.id = %s AND p.standing = 1 AND p.until > {NOW}
"""

# -- several operations together -------------------------------------------------------

# Session variables pass the operations, and the rows that were locked, to the next statements. One
# statement cannot both lock and change rows here, and a round trip in between would keep the names
# locked.
_GIVEN = "SET @lockfast_deeds = %s"
# Most of the work is reading the list, column by column, so each statement has only the columns
# that it needs. A value too long for its column would be cut silently here, but every accepted
# claim fits.
_COLUMNS = {
    "n": "FOR ORDINALITY",
    "what": "INT PATH '$.what'",
    "k": "VARCHAR(1280) PATH '$.key'",
    "id": f"VARCHAR(128) {TEXT_TYPE} PATH '$.id'",
    "ttl": "DOUBLE PATH '$.ttl' DEFAULT '0' ON EMPTY",
    "client": f"VARCHAR(128) {TEXT_TYPE} PATH '$.client'",
    "owner": f"MEDIUMTEXT {TEXT_TYPE} PATH '$.owner'",
}
_MORE_COLUMNS = {
    "party": f"VARCHAR(128) {TEXT_TYPE} PATH '$.party'",
    "weight": "BIGINT PATH '$.weight' DEFAULT '1' ON EMPTY",
    "capacity": "BIGINT PATH '$.capacity' DEFAULT '1' ON EMPTY",
    "lock_delay": "DOUBLE PATH '$.lock_delay' DEFAULT '0' ON EMPTY",
    "min_hold": "DOUBLE PATH '$.min_hold' DEFAULT '0' ON EMPTY",
}
_AS_USUAL = {"party": "NULL", "weight": "1", "capacity": "1", "lock_delay": "0", "min_hold": "0"}
"""The values of these columns in nearly all claims. If all claims of a batch have them, the columns
need not be read."""


_DONE_TO = "VALUES(standing)"


def _given(*names: str) -> str:
    columns = {**_COLUMNS, **_MORE_COLUMNS}
    return listed("@lockfast_deeds", ", ".join(f"{name} {columns[name]}" for name in names))


def _operations(*names: str) -> str:
    return f"{_given(*names)} AS j STRAIGHT_JOIN {{door}} AS d ON d.`key` = UNHEX(j.k)"


# Rows that other transactions have locked are skipped, and their claims go through the door.
# Otherwise one name whose transaction does not end would hold up the whole batch. Only rows to be
# changed stay locked.
_LOCK = f"""
SELECT GROUP_CONCAT(j.n) INTO @lockfast_ready FROM {_operations("n", "what", "k", "id")}
WHERE CASE j.what
    WHEN 0 THEN d.id = '' AND d.crowd = 0
    WHEN 1 THEN d.id = j.id AND d.crowd = 0 AND d.standing = 0 AND d.until > {NOW}
        AND d.since + d.min_hold <= {NOW}
    ELSE d.id = j.id AND d.standing <= 1 AND d.until > {NOW} END
FOR UPDATE SKIP LOCKED
"""


def _change(more: Mapping[str, str]) -> str:
    """Return the statement that changes the locked rows; `more` has expressions for more columns.

    The statement is an INSERT of rows that all exist, because an UPDATE joined with a list takes
    longer. The kind of operation is passed in the column `standing`. The rows are locked, so no
    other transaction can delete them meanwhile.
    """
    read = (*_COLUMNS, *(name for name in more if more[name].startswith("j.")))
    whose, how = (
        ("client", "owner", "party"),
        ("ttl", "since", *(one for one in more if one != "party")),
    )
    return f"""
INSERT INTO {{door}} (`key`, id, client, owner, {", ".join(more)}, ttl, standing, until, since,
    token, bell, last_token, crowd, head)
SELECT UNHEX(j.k), j.id, COALESCE(j.client, ''), COALESCE(j.owner, ''),
    {", ".join(more.values())}, j.ttl, j.what,
    IF(j.what = 1, 0, {BEGUN} + j.ttl), {BEGUN}, {BEGUN_MICROSECONDS}, '', 0, 0, 0
FROM {_given(*read)} AS j WHERE FIND_IN_SET(j.n, @lockfast_ready)
ON DUPLICATE KEY UPDATE
    last_token = IF({_DONE_TO} = 0, GREATEST({{door}}.last_token + 1, VALUES(token)),
        {{door}}.last_token),
    token = IF({_DONE_TO} = 0, {{door}}.last_token, {{door}}.token),
    id = CASE {_DONE_TO} WHEN 0 THEN VALUES(id) WHEN 1 THEN '' ELSE {{door}}.id END,
    {", ".join(f"{one} = IF({_DONE_TO} = 2, {{door}}.{one}, VALUES({one}))" for one in whose)},
    {", ".join(f"{one} = IF({_DONE_TO} = 0, VALUES({one}), {{door}}.{one})" for one in how)},
    until = VALUES(until), standing = 0, bell = ''
"""


_CHANGE = _change({name: f"j.{name}" for name in _MORE_COLUMNS})
_CHANGE_AS_USUAL = _change(_AS_USUAL)
_DONE = (
    f"SELECT d.`key`, d.token FROM {_operations('n', 'k')} WHERE FIND_IN_SET(j.n, @lockfast_ready)"
)

# -- many names at once ----------------------------------------------------------------

_WANTED = listed(
    "%s",
    "number INT PATH '$.number', k VARCHAR(1280) PATH '$.key',"
    f" id VARCHAR(128) {TEXT_TYPE} PATH '$.id', arrived BIGINT PATH '$.arrived'",
)
_LOOK = f"""
SELECT r.number, EXISTS (
    SELECT 1 FROM {{place}} AS p
    WHERE p.`key` = d.`key` AND p.arrived = r.arrived AND p.id = r.id AND p.standing = 3
), NOT EXISTS (
    SELECT 1 FROM {{place}} AS p
    WHERE p.`key` = d.`key` AND p.standing = 3 AND p.arrived < r.arrived
), NULLIF(LEAST(IF(d.id <> '' AND d.standing < 3, d.until, 1e300), COALESCE((
    SELECT MIN(p.until) FROM {{place}} AS p WHERE p.`key` = d.`key` AND p.standing < 3
), 1e300)), 1e300) - {NOW}, (
    SELECT MIN(p.until) FROM {{place}} AS p WHERE p.`key` = d.`key` AND p.standing = 1
) - {NOW}
FROM {_WANTED} AS r STRAIGHT_JOIN {{door}} AS d ON d.`key` = UNHEX(r.k)
"""
# An existing row is not touched, because otherwise the statement would wait for a transaction that
# has locked it. This is not an INSERT IGNORE, because two transactions that find the row created
# meanwhile would share a lock on it, and then each would wait for the other to release it.
_MAKE = f"""
INSERT INTO {{door}} (`key`, {", ".join(CLAIM_COLUMNS)}, capacity, last_token, crowd, head)
SELECT UNHEX(j.k), '', '', '', NULL, 0, 0, 0, 0, 0, 0, 0, 0, '', 0, 0, 0, 0
FROM {KEYS_TABLE} AS j LEFT JOIN {{door}} AS e ON e.`key` = UNHEX(j.k)
WHERE e.`key` IS NULL ORDER BY j.k
ON DUPLICATE KEY UPDATE head = {{door}}.head
"""
_LOCK_EMPTY = f"""
SELECT d.`key` FROM {KEYS_TABLE} AS j STRAIGHT_JOIN {{door}} AS d ON d.`key` = UNHEX(j.k)
WHERE d.id = '' AND d.crowd = 0 FOR UPDATE
"""


class MysqlStatements(StoreStatements):
    """Builds the queries of the uncontended cycle, without running them."""

    def __init__(self, tables: MysqlTables, *, namespace: str) -> None:
        super().__init__(namespace=namespace)
        self._take, self._take_new, self._release = tables.fill(_TAKE, _TAKE_NEW, _RELEASE)
        self._confirm, self._look = tables.fill(_CONFIRM, _LOOK)
        self._make, self._lock_empty = tables.fill(_MAKE, _LOCK_EMPTY)
        self._lock, self._change, self._change_as_usual, self._done = map(
            Query, tables.fill(_LOCK, _CHANGE, _CHANGE_AS_USUAL, _DONE)
        )

    def take(self, claim: Claim) -> Query:
        return Query(self._take, (*values_of(claim), claim.id, self._key(claim)))

    def take_new(self, claim: Claim) -> Query:
        values = (*values_of(claim), claim.id)
        return Query(self._take_new, (self._key(claim), *values, *values))

    def token_in(self, rows: Rows) -> int | None:
        [(changed, token)] = rows
        return int(token) if changed and token else None

    def together(self, operations: Sequence[Operation]) -> Sequence[Query]:
        takes = [one for one in operations if one.what is OperationKind.TAKE]
        new = sorted(self._key(one.claim).hex() for one in takes if not one.is_known)
        is_usual = all(_is_as_usual(one.claim) for one in takes)
        return (
            *([Query(self._make, (json.dumps(new),))] if new else []),
            Query(_GIVEN, (as_json(operations, namespace=self._namespace),)),
            self._lock,
            self._change_as_usual if is_usual else self._change,
            self._done,
        )


def _is_as_usual(claim: Claim) -> bool:
    is_alone = claim.party is None and claim.weight == claim.capacity == 1
    return is_alone and not (claim.lock_delay or claim.min_hold)


# Reaping idle names from the tables of MySQL and MariaDB.

_OLD = f"last_token < ({NOW} - {REAP_AFTER_SECONDS}) * 1000000"
# The lease, and any lock_delay or min_hold that outlasted it, ended more than REAP_AFTER_SECONDS
# ago. So the holder died, and nobody has asked for the name since.
_OVER = f"GREATEST(until + lock_delay, since + min_hold) < {NOW} - {REAP_AFTER_SECONDS}"
_NOBODY = f"{_OLD} AND (id = '' OR {_OVER})"

_SWEEP = f"""
SELECT COUNT(*), MAX(`key`), 0, COALESCE(MAX(is_left), 0) FROM (
    SELECT `key`, {_NOBODY} AS is_left FROM {{door}} WHERE `key` > %s ORDER BY `key` LIMIT %s
) AS seen
"""
# A row that is in use is locked, and the reaper skips it, because a waiting reaper would make other
# transactions wait behind it. The condition is evaluated on the row as it is once it is locked.
_LOCK_IDLE = f"""
SELECT `key`, crowd FROM {{door}} WHERE `key` > %s AND `key` <= %s AND {_NOBODY}
ORDER BY `key` FOR UPDATE SKIP LOCKED
"""
# A waiting entry never expires. But if no entry was inside for a day, a live waiter would have been
# admitted. The entries are read once the name is locked, by a locking read, which sees the latest
# commits.
_ALIVE = f"""
SELECT p.`key` FROM {KEYS_TABLE} AS j STRAIGHT_JOIN {{place}} AS p ON p.`key` = UNHEX(j.k)
WHERE p.standing <> 3 AND NOT ({_OVER}) FOR UPDATE
"""
_DROP_LINE = "DELETE FROM {place} WHERE `key` = %s"
_DROP = "DELETE FROM {door} WHERE `key` = %s"


class MysqlReaper(Reaper):
    """Finds idle names with one statement, a few rows at a time, and deletes them in steps."""

    def __init__(self, tables: MysqlTables) -> None:
        self._reap, self._lock, self._alive = tables.fill(_SWEEP, _LOCK_IDLE, _ALIVE)
        self._drop_line, self._drop = tables.fill(_DROP_LINE, _DROP)

    def lines(self, between: tuple[bytes, bytes]) -> Steps[int]:
        """Delete idle names after the first key, up to the second; return how many were deleted."""
        [found] = yield [Query(self._lock, between)]
        keys = [bytes(key) for key, _ in found]
        crowded = [bytes(key) for key, crowd in found if crowd]
        if crowded:
            wanted = json.dumps([key.hex() for key in crowded])
            [rows] = yield [Query(self._alive, (wanted,))]
            alive = {bytes(key) for (key,) in rows}
            keys = [key for key in keys if key not in alive]
        gone = [(key,) for key in keys]
        if gone:
            yield [QueryMany(self._drop_line, gone), QueryMany(self._drop, gone)]
        return len(gone)
