"""The uncontended cycle, one statement each; and many of them in one round trip and one commit.

They decide by columns of the name's own row alone, which the statement locks; how many stand in
`place` is counted in that row. The token comes with the answer as the statement's insert id.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from lockfast.backends.mysql.schema import CLAIM, TEXT
from lockfast.backends.sql.deeds import What, as_json, tokens_in
from lockfast.backends.sql.steps import Ask, AskMany
from lockfast.core.naming import storage_key

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lockfast.backends.mysql.schema import Tables
    from lockfast.backends.sql.deeds import Deed
    from lockfast.backends.sql.steps import Rows
    from lockfast.model import Claim

# Of the two clocks of a statement this one is read when it is called, so after the row was waited
# for. The session's time zone is UTC.
MICROSECONDS = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6))"
NOW = f"({MICROSECONDS} / 1e6)"
# And this one when the statement began: for one that comes after those that locked.
BEGUN_MICROSECONDS = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"
BEGUN = f"({BEGUN_MICROSECONDS} / 1e6)"


def listed(source: str, columns: str) -> str:
    """Return the elements of a JSON list as rows; every list of our statements is read by this.

    The two servers differ here, and this is the form that both take:

    - FOR UPDATE locks every table beside it, and MySQL can lock no JSON_TABLE (error 3569). It
      does not reach into a derived table. MariaDB lacks `FOR UPDATE OF`.
    - Only a number may have a DEFAULT. MySQL parses the default as JSON, so that '' is an error
      (3141), and MariaDB does not, so that '""' is two quotation marks. Where a text may be
      missing, say COALESCE.
    """
    return f"(SELECT * FROM JSON_TABLE({source}, '$[*]' COLUMNS ({columns})) AS given)"


KEYS = listed("%s", "k VARCHAR(1280) PATH '$'")
"""A list of keys in hexadecimal digits, as rows."""

_EMPTY = "id = '' AND crowd = 0"

# In an UPDATE each assignment sees what those before it have set: the token is that of the record.
_TAKE = f"""
UPDATE {{door}} SET last_token = LAST_INSERT_ID(GREATEST(last_token + 1, {MICROSECONDS})),
    token = last_token, client = %s, owner = %s, party = %s, weight = %s, ttl = %s,
    lock_delay = %s, min_hold = %s, standing = 0, since = {NOW}, until = {NOW} + ttl, bell = '',
    capacity = %s, id = %s
WHERE `key` = %s AND {_EMPTY}
"""
# So it is in a list of values; and where the name is known, whether its door is empty is asked
# again and again, up to the last. Where it is not, no token comes: on a connection that counts the
# rows which it found, as SQLAlchemy's do, one that was not changed counts as well.
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
# The name's row is changed to nothing new, so that it is locked first, as by everybody who changes
# a place: else one who has just read that the window is over would delete what we have made a hold.
_CONFIRM = f"""
UPDATE {{door}} AS d STRAIGHT_JOIN {{place}} AS p ON p.`key` = d.`key`
SET d.head = d.head, p.token = LAST_INSERT_ID(p.token), p.standing = 0, p.since = {NOW},
    p.until = {NOW} + p.ttl
WHERE d.`key` = %s AND p.arrived = %s AND p.id = %s AND p.standing = 1 AND p.until > {NOW}
"""

# -- together --------------------------------------------------------------------------

# Variables of the session hand on what was given and what was locked: one statement cannot both
# lock and change here, and what is asked between two round trips would keep the names locked.
_GIVEN = "SET @lockfast_deeds = %s"
# Most of the work is to read the list, column by column: so each statement has only those that it
# needs. What does not fit a column here would be cut without a word; all that is accepted of a
# claim fits.
_COLUMNS = {
    "n": "FOR ORDINALITY",
    "what": "INT PATH '$.what'",
    "k": "VARCHAR(1280) PATH '$.key'",
    "id": f"VARCHAR(128) {TEXT} PATH '$.id'",
    "ttl": "DOUBLE PATH '$.ttl' DEFAULT '0' ON EMPTY",
    "client": f"VARCHAR(128) {TEXT} PATH '$.client'",
    "owner": f"MEDIUMTEXT {TEXT} PATH '$.owner'",
}
_MORE_COLUMNS = {
    "party": f"VARCHAR(128) {TEXT} PATH '$.party'",
    "weight": "BIGINT PATH '$.weight' DEFAULT '1' ON EMPTY",
    "capacity": "BIGINT PATH '$.capacity' DEFAULT '1' ON EMPTY",
    "lock_delay": "DOUBLE PATH '$.lock_delay' DEFAULT '0' ON EMPTY",
    "min_hold": "DOUBLE PATH '$.min_hold' DEFAULT '0' ON EMPTY",
}
_AS_USUAL = {"party": "NULL", "weight": "1", "capacity": "1", "lock_delay": "0", "min_hold": "0"}
"""What these are of nearly all claims, which need not be read then."""


_DONE_TO = "VALUES(standing)"


def _given(*names: str) -> str:
    columns = {**_COLUMNS, **_MORE_COLUMNS}
    return listed("@lockfast_deeds", ", ".join(f"{name} {columns[name]}" for name in names))


def _deeds(*names: str) -> str:
    return f"{_given(*names)} AS j STRAIGHT_JOIN {{door}} AS d ON d.`key` = UNHEX(j.k)"


# Rows that others have locked are left out, and go through the door: one name whose transaction
# does not end would otherwise hold up all who go with it. Only what is to be changed stays locked.
_LOCK = f"""
SELECT GROUP_CONCAT(j.n) INTO @lockfast_ready FROM {_deeds("n", "what", "k", "id")}
WHERE CASE j.what
    WHEN 0 THEN d.id = '' AND d.crowd = 0
    WHEN 1 THEN d.id = j.id AND d.crowd = 0 AND d.standing = 0 AND d.until > {NOW}
        AND d.since + d.min_hold <= {NOW}
    ELSE d.id = j.id AND d.standing <= 1 AND d.until > {NOW} END
FOR UPDATE SKIP LOCKED
"""


def _change(more: Mapping[str, str]) -> str:
    """Return what changes the rows that are ready, by these expressions.

    As new rows that are all there: an UPDATE of what a list is joined with takes longer.
    What is done to each stands where a standing would. The rows are locked, so none of them goes
    meanwhile, and none is made.
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
_DONE = f"SELECT d.`key`, d.token FROM {_deeds('n', 'k')} WHERE FIND_IN_SET(j.n, @lockfast_ready)"

# -- for many --------------------------------------------------------------------------

_WANTED = listed(
    "%s",
    "number INT PATH '$.number', k VARCHAR(1280) PATH '$.key',"
    f" id VARCHAR(128) {TEXT} PATH '$.id', arrived BIGINT PATH '$.arrived'",
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
# One that is there is not touched, or who has locked it would be waited for. Not INSERT IGNORE: two
# who find the row made meanwhile would share it, and then both wait for the other to let go of it.
_MAKE = f"""
INSERT INTO {{door}} (`key`, {", ".join(CLAIM)}, capacity, last_token, crowd, head)
SELECT UNHEX(j.k), '', '', '', NULL, 0, 0, 0, 0, 0, 0, 0, 0, '', 0, 0, 0, 0
FROM {KEYS} AS j LEFT JOIN {{door}} AS e ON e.`key` = UNHEX(j.k)
WHERE e.`key` IS NULL ORDER BY j.k
ON DUPLICATE KEY UPDATE head = {{door}}.head
"""
_LOCK_EMPTY = f"""
SELECT d.`key` FROM {KEYS} AS j STRAIGHT_JOIN {{door}} AS d ON d.`key` = UNHEX(j.k)
WHERE d.id = '' AND d.crowd = 0 FOR UPDATE
"""


class Statements:
    """See the protocol. Makes the requests; runs none."""

    def __init__(self, tables: Tables, *, namespace: str) -> None:
        def said(text: str) -> str:
            return text.format(door=tables.door, place=tables.place)

        self._namespace = namespace
        self._take, self._take_new, self._release = map(said, (_TAKE, _TAKE_NEW, _RELEASE))
        self._confirm, self._look = said(_CONFIRM), said(_LOOK)
        self._make, self._lock_empty = said(_MAKE), said(_LOCK_EMPTY)
        self._lock, self._change, self._change_as_usual, self._done = (
            Ask(said(one)) for one in (_LOCK, _CHANGE, _CHANGE_AS_USUAL, _DONE)
        )

    # -- for one -----------------------------------------------------------------------

    def take(self, claim: Claim) -> Ask:
        """See the protocol."""
        return Ask(self._take, (*_values(claim), self._key(claim)))

    def take_new(self, claim: Claim) -> Ask:
        """See the protocol."""
        values = _values(claim)
        return Ask(self._take_new, (self._key(claim), *values, *values))

    def release(self, claim: Claim) -> Ask:
        """See the protocol."""
        return Ask(self._release, (self._key(claim), claim.id))

    def confirm(self, claim: Claim, arrived: int) -> Ask:
        """See the protocol."""
        return Ask(self._confirm, (self._key(claim), arrived, claim.id))

    def token_in(self, rows: Rows) -> int | None:
        """See the protocol."""
        [(changed, token)] = rows
        return int(token) if changed and token else None

    # -- for several -------------------------------------------------------------------

    def together(self, deeds: Sequence[Deed]) -> Sequence[Ask]:
        """See the protocol."""
        takes = [one for one in deeds if one.what is What.TAKE]
        new = sorted(self._key(one.claim).hex() for one in takes if not one.is_known)
        is_usual = all(_is_as_usual(one.claim) for one in takes)
        return (
            *([Ask(self._make, (json.dumps(new),))] if new else []),
            Ask(_GIVEN, (as_json(deeds, namespace=self._namespace),)),
            self._lock,
            self._change_as_usual if is_usual else self._change,
            self._done,
        )

    def done(self, deeds: Sequence[Deed], answers: Sequence[Rows]) -> list[int | None]:
        """See the protocol."""
        return tokens_in(answers[-1], deeds, namespace=self._namespace)

    def look(self, wanted: str) -> Ask:
        """See the protocol."""
        return Ask(self._look, (wanted,))

    def make(self, keys: str) -> AskMany:
        """See the protocol."""
        return AskMany(self._make, [(keys,)])

    def lock_empty(self, keys: str) -> Ask:
        """See the protocol."""
        return Ask(self._lock_empty, (keys,))

    def _key(self, claim: Claim) -> bytes:
        return storage_key(self._namespace, claim.name)


def _values(claim: Claim) -> tuple[object, ...]:
    return (
        claim.client,
        claim.owner,
        claim.party,
        claim.weight,
        claim.ttl,
        claim.lock_delay,
        claim.min_hold,
        claim.capacity,
        claim.id,
    )


def _is_as_usual(claim: Claim) -> bool:
    is_alone = claim.party is None and claim.weight == claim.capacity == 1
    return is_alone and not (claim.lock_delay or claim.min_hold)
