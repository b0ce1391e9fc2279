"""User-level locks of MySQL and MariaDB: what is said to the server, and what a name is there."""

from __future__ import annotations

import hashlib
import math

from holdfast.backends.sql.steps import Ask
from holdfast.core.naming import storage_key

# Only on the very session that carries the locks: behind a proxy the statement may reach another
# one, and a lock that was taken there would be nobody's.
_ON_OURS = "SELECT IF(CONNECTION_ID() = %s, {}, NULL), CONNECTION_ID()"
TAKE = _ON_OURS.format("GET_LOCK(%s, 0)")
GIVE_BACK = _ON_OURS.format("RELEASE_LOCK(%s)")
BEAT = "SELECT 1, CONNECTION_ID()"
LAST_FOR = "SET SESSION wait_timeout = %s"
HOLDERS = """
SELECT one.id, COALESCE(p.USER, ''), COALESCE(p.HOST, ''), ''
FROM (SELECT IS_USED_LOCK(%s) AS id) AS one
LEFT JOIN information_schema.PROCESSLIST AS p ON p.ID = one.id
WHERE one.id IS NOT NULL
"""

DIGEST = 24
"""So many bytes of the hash, twice as many letters: a lock's name has 64 at most."""


class MysqlStatements:
    """See the protocol; keys are names, hashed: they are short, and may not differ by case alone.

    They belong to the whole server, so the database's name is part of them.
    """

    def __init__(self, *, database: str, namespace: str) -> None:
        self._database = database.encode()
        self._namespace = namespace

    def key_of(self, name: str) -> str:
        """Return the name that is locked for a name."""
        whole = self._database + b"\0" + storage_key(self._namespace, name)
        return "holdfast:" + hashlib.blake2b(whole, digest_size=DIGEST).hexdigest()

    def take(self, key: str, number: int) -> Ask:
        """See the protocol."""
        return Ask(TAKE, (number, key))

    def give_back(self, key: str, number: int) -> Ask:
        """See the protocol."""
        return Ask(GIVE_BACK, (number, key))

    def beat(self) -> Ask:
        """See the protocol."""
        return Ask(BEAT)

    def last_for(self, ttl: float) -> Ask:
        """See the protocol; it counts in whole seconds."""
        return Ask(LAST_FOR, (math.ceil(ttl),))

    def holders(self, key: str) -> Ask:
        """See the protocol."""
        return Ask(HOLDERS, (key,))

    def end_session(self, number: int) -> str:
        """See the protocol."""
        return f"KILL {number}"
