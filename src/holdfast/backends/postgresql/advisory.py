"""Advisory locks of PostgreSQL: what is said to the server, and what a name is there."""

from __future__ import annotations

import hashlib
import math

from holdfast.backends.sql.steps import Ask
from holdfast.core.naming import storage_key

OLDEST = 14
"""Since then a server ends the session of a client that has fallen silent."""

# Only on the very session that carries the locks: behind a pooler the statement may reach another
# one, and a lock that was taken there would be nobody's.
_ON_OURS = "SELECT CASE WHEN pg_backend_pid() = $2::int THEN {} END, pg_backend_pid()"
TAKE = _ON_OURS.format("pg_try_advisory_lock($1::bigint)")
GIVE_BACK = _ON_OURS.format("pg_advisory_unlock($1::bigint)")
BEAT = "SELECT true, pg_backend_pid()"
LAST_FOR = "SELECT set_config('idle_session_timeout', $1, false)"

# The lock's number stands there in two halves.
HOLDERS = """
SELECT l.pid, coalesce(a.usename::text, ''), coalesce(host(a.client_addr), ''),
    coalesce(a.application_name, '')
FROM pg_locks AS l LEFT JOIN pg_stat_activity AS a ON a.pid = l.pid
WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND l.classid = $1::oid AND l.objid = $2::oid
"""


class PostgresqlStatements:
    """See the protocol; keys are 64 bits, and belong to one database."""

    def __init__(self, *, namespace: str) -> None:
        self._namespace = namespace

    def key_of(self, name: str) -> int:
        """Return the number that is locked for a name."""
        digest = hashlib.blake2b(storage_key(self._namespace, name), digest_size=8).digest()
        return int.from_bytes(digest, "big", signed=True)

    def take(self, key: int, number: int) -> Ask:
        """See the protocol."""
        return Ask(TAKE, (key, number))

    def give_back(self, key: int, number: int) -> Ask:
        """See the protocol."""
        return Ask(GIVE_BACK, (key, number))

    def beat(self) -> Ask:
        """See the protocol."""
        return Ask(BEAT)

    def last_for(self, ttl: float) -> Ask:
        """See the protocol; it counts in milliseconds."""
        return Ask(LAST_FOR, (str(math.ceil(ttl * 1000)),))

    def holders(self, key: int) -> Ask:
        """See the protocol."""
        high, low = divmod(key % 2**64, 2**32)
        return Ask(HOLDERS, (high, low))

    def end_session(self, number: int) -> str:
        """See the protocol."""
        return f"SELECT pg_terminate_backend({number})"
