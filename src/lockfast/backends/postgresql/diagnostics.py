"""What `lockfast doctor` asks a PostgreSQL server, and what it concludes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockfast.backends.sql.diagnostics import clock_finding
from lockfast.model import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

# Decides whether committed leases survive a failover, from the primary's report about its standbys.

SYNCHRONOUS = frozenset({"sync", "quorum"})
NOT_WAITING = frozenset({"off", "local"})


@dataclass(frozen=True, slots=True)
class Standby:
    """A standby; `state` says whether commits wait for it, or is None if that may not be read."""

    name: str | None
    state: str | None


def replication(settings: Mapping[str, str], standbys: Sequence[Standby]) -> list[Finding]:
    """Return what happens to leases when a standby takes over."""
    waited_for = settings.get("synchronous_standby_names", "")
    commit = settings.get("synchronous_commit", "on")
    waits = bool(waited_for) and commit not in NOT_WAITING
    there = [one for one in standbys if one.state is None or one.state in SYNCHRONOUS]
    if waits and not there:
        return [
            Finding.error(
                "replication",
                f"every commit waits for a standby (synchronous_standby_names is {waited_for!r}), "
                "and none of them is there: nothing can be locked",
                "bring the standby back, or empty synchronous_standby_names",
            )
        ]
    if not standbys:
        return [Finding.ok("replication", "no standby follows: nothing fails over to one")]
    if waits:
        return [Finding.ok("replication", "a commit counts when a synchronous standby has it too")]
    remedy = "set synchronous_standby_names"
    if waited_for:
        remedy = f"ALTER ROLE ... SET synchronous_commit = on (it is {commit}), for those who lock"
    return [
        Finding.warning(
            "replication",
            f"commits do not wait for the {len(standbys)} standby(s): a failover forgets leases "
            "that were just granted, and their tokens, so two may both believe they hold a lock",
            f"{remedy}; else only a resource that looks at the token is safe",
        )
    ]


# What the server's own settings and state say about the guarantees of locks on it; pure.

OLDEST_SERVER = 12

CONNECTIONS_PER_CLIENT = 5
"""Connections that one client may open: four for requests, and one to listen."""

OLD_SNAPSHOT_SECONDS = 300.0
OLD_TRANSACTIONS = 10_000
"""A snapshot as old as either limit keeps enough dead rows to matter. After 40,000 transactions, a
lock cycle on one name took eight times as long."""

SLOW_TO_NOTICE_SECONDS = 300.0

ONE_CONNECTION = (
    "the locks were given one connection, which cannot work and listen at once, so who waits has "
    "to ask again and again"
)

NEEDED_PRIVILEGES = ("SELECT", "INSERT", "UPDATE", "DELETE")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The oldest snapshot in this database, with its owner and age; None means unknown."""

    whose: str
    transactions: int
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Rights:
    """Whether the schema and the tables exist, and what this user may do with them.

    `missing` lists the privileges that this user lacks, for each table that exists; `mismatch` is
    the sentence that says why a table of that name is not ours.
    """

    user: str
    schema: str
    tables: tuple[str, str]
    schema_is_there: bool
    may_use: bool
    may_make: bool
    missing: Mapping[str, Sequence[str]]
    mismatch: str | None = None


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """Facts read from the server; None means that this user may not read the fact.

    `ahead` is the minimum number of seconds by which the server's clock is ahead of ours; `push` is
    whether notifications reach us, None if that was not tested. `settings` are those of our own
    session. `room` is the number of connections that the application lends at once, None if there
    is no limit, or if the connections are ours.
    """

    where: str
    version: int
    settings: Mapping[str, str]
    is_pooled: bool
    push: bool | None
    is_standby: bool
    standbys: Sequence[Standby]
    ahead: float
    rights: Rights
    snapshot: Snapshot | None
    connections: int
    room: int | None = None


def findings(facts: ServerFacts) -> list[Finding]:
    """Return what an operator should know."""
    return [
        *_server(facts),
        _pooler(facts),
        *_writable(facts),
        *_durability(facts.settings),
        *([] if facts.is_standby else replication(facts.settings, facts.standbys)),
        clock_finding(facts.ahead),
        _permissions(facts.rights),
        _isolation(facts.settings),
        _snapshot(facts.snapshot),
        *_timeouts(facts.settings),
        *_keepalives(facts),
        *_connections(facts),
    ]


def _server(facts: ServerFacts) -> Iterator[Finding]:
    # `server_version_num` is 150020 for 15.20.
    major, minor = divmod(facts.version, 10_000)
    what = f"{facts.where} is PostgreSQL {major}.{minor}"
    if major < OLDEST_SERVER:
        yield Finding.error(
            "server",
            f"{what}, which lacks what Lockfast's statements need",
            f"PostgreSQL {OLDEST_SERVER} or newer is needed",
        )
    else:
        yield Finding.ok("server", what)
    encoding = facts.settings.get("server_encoding", "UTF8")
    if encoding != "UTF8":
        yield Finding.warning(
            "encoding",
            f"this database's encoding is {encoding}: an owner or a label with another letter is "
            "refused",
            "a database with ENCODING 'UTF8' for the locks",
        )


def _pooler(facts: ServerFacts) -> Finding:
    if facts.room == 1:
        return Finding.warning(
            "one connection",
            f"{ONE_CONNECTION}; all else is as safe as with more",
            "give them a pool with room for two, or the URL",
        )
    if facts.push is False:
        return Finding.warning(
            "pooler",
            "notifications do not reach us, most likely because of a pooler in transaction mode: "
            "who waits has to ask again and again, and no statement can be prepared; all else is "
            "as safe as without it",
            "give the server's own address for the locks, or a pooler in session mode",
        )
    if facts.is_pooled:
        return Finding.ok(
            "pooler",
            "a pooler that lets a connection be ours (session mode); statements are not prepared",
        )
    return Finding.ok("pooler", "no pooler stands between us and the server")


def _writable(facts: ServerFacts) -> Iterator[Finding]:
    if facts.is_standby:
        yield Finding.error(
            "replication",
            f"{facts.where} is a standby, which takes no writes: nothing can be locked",
            "give the primary's address, or all of them (postgresql://host1,host2/database)",
        )
    elif facts.settings.get("default_transaction_read_only") == "on":
        yield Finding.error(
            "read only",
            "default_transaction_read_only is on: nothing can be locked",
            f"ALTER ROLE {facts.rights.user} SET default_transaction_read_only = off",
        )


def _durability(settings: Mapping[str, str]) -> Iterator[Finding]:
    if settings.get("fsync") == "off":
        yield Finding.error(
            "durability",
            "fsync is off: a power cut may destroy the whole database, not only the locks",
            "fsync = on, and a restart",
        )
    elif settings.get("synchronous_commit") == "off":
        yield Finding.warning(
            "durability",
            "synchronous_commit is off: a server that crashes forgets the leases and tokens of "
            "its last second, so two may both believe they hold a lock, with the same token",
            "ALTER ROLE or ALTER DATABASE ... SET synchronous_commit = on, for those who lock",
        )
    else:
        yield Finding.ok("durability", "every grant is on disk before it counts")


def _permissions(rights: Rights) -> Finding:
    names = ", ".join(rights.tables)
    grant = f"GRANT {', '.join(NEEDED_PRIVILEGES)} ON {names} TO {rights.user}"
    if rights.schema_is_there and not rights.may_use:
        return Finding.error(
            "permissions",
            f"{rights.user} may not use the schema {rights.schema}",
            f'GRANT USAGE ON SCHEMA "{rights.schema}" TO {rights.user}; {grant}',
        )
    if rights.mismatch is not None:
        return Finding.error("permissions", rights.mismatch, "another table= or schema= in the URL")
    if len(rights.missing) < len(rights.tables):
        if rights.may_make:
            return Finding.note(
                "tables",
                f"the tables {names} are not there yet; the first use makes them",
                "lockfast init makes them now",
            )
        return Finding.error(
            "tables",
            f"the tables {names} are not there, and {rights.user} may not make them",
            f"run lockfast init as a user that may, then {grant}",
        )
    lacking = {one: missing for one, missing in rights.missing.items() if missing}
    if lacking:
        said = "; ".join(f"{', '.join(missing)} on {one}" for one, missing in lacking.items())
        return Finding.error("permissions", f"{rights.user} may not {said}", grant)
    return Finding.ok("permissions", f"{rights.user} may do all that is needed on {names}")


def _isolation(settings: Mapping[str, str]) -> Finding:
    level = settings.get("transaction_isolation", "read committed")
    if level == "read committed":
        return Finding.ok("isolation", "read committed, whatever the server's default is")
    return Finding.error(
        "isolation",
        f"our transactions run as {level}, although we set READ COMMITTED: a read after a lock may "
        "miss what others have just written",
        "find out what changes that setting between this client and the server, such as a pooler",
    )


def _snapshot(oldest: Snapshot | None) -> Finding:
    if oldest is None:
        return Finding.ok("old snapshot", "nobody keeps the tables from being cleaned")
    age = f"{oldest.transactions} transactions"
    if oldest.seconds is not None:
        age = f"{oldest.seconds:.0f} s and {age}"
    if oldest.transactions < OLD_TRANSACTIONS and (oldest.seconds or 0.0) < OLD_SNAPSHOT_SECONDS:
        return Finding.ok("old snapshot", f"the oldest is {age} old ({oldest.whose})")
    return Finding.warning(
        "old snapshot",
        f"{oldest.whose} looks at the database as it was {age} ago: until it ends, no row that "
        "changed since is cleaned, and locks that are used often get slower and slower",
        "end it, or let dumps and long reports run on a standby without hot_standby_feedback",
    )


def _timeouts(settings: Mapping[str, str]) -> Iterator[Finding]:
    # Our own transactions end after two idle seconds in any case, because each transaction sets
    # that timeout.
    if settings.get("idle_in_transaction_session_timeout", "0") == "0":
        yield Finding.note(
            "forgotten transactions",
            "idle_in_transaction_session_timeout is 0: a transaction that an application forgets "
            "is never ended, and keeps the tables from being cleaned",
            "idle_in_transaction_session_timeout = '10min', or whatever the longest may take",
        )
    else:
        milliseconds = int(settings["idle_in_transaction_session_timeout"])
        yield Finding.ok(
            "forgotten transactions", f"they are ended after {milliseconds / 1000:g} s"
        )
    idle = int(settings.get("idle_session_timeout", "0")) / 1000
    if idle:
        yield Finding.warning(
            "idle sessions",
            f"idle_session_timeout is {idle:g} s: it ends the connection that listens, which is "
            "idle by nature; until there is another, who waits is not woken",
            "ALTER ROLE ... SET idle_session_timeout = 0, for those who lock",
        )


def _keepalives(facts: ServerFacts) -> Iterator[Finding]:
    idle, interval, count = (
        int(facts.settings.get(f"tcp_keepalives_{one}", "0")) for one in _KEEPALIVES
    )
    if not idle or facts.is_pooled:
        return  # this is a Unix socket, or the pooler's connection
    seconds = idle + interval * count
    if seconds <= SLOW_TO_NOTICE_SECONDS:
        yield Finding.ok("keepalives", f"a client that vanished is noticed after {seconds} s")
        return
    yield Finding.note(
        "keepalives",
        f"the server notices only after {seconds} s that a client's machine has vanished: so long "
        "its connections are taken",
        "tcp_keepalives_idle = 60, tcp_keepalives_interval = 10, tcp_keepalives_count = 6",
    )


_KEEPALIVES = ("idle", "interval", "count")


def _connections(facts: ServerFacts) -> Iterator[Finding]:
    if facts.is_pooled or facts.room is not None:
        # A pooler's clients do not count at the server, and borrowed connections are open already.
        return
    settings = facts.settings
    most = int(settings["max_connections"])
    kept = ("superuser_reserved_connections", "reserved_connections")
    left = most - facts.connections - sum(int(settings.get(one, "0")) for one in kept)
    said = f"{max(0, left)} of {most} connections are left"
    if left < CONNECTIONS_PER_CLIENT:
        yield Finding.warning(
            "connections",
            f"{said}, and a client takes up to {CONNECTIONS_PER_CLIENT}: the next may be "
            "turned away",
            "raise max_connections, put a pooler before the server, or give fewer connections=",
        )
        return
    yield Finding.ok(
        "connections",
        f"{said}: {left // CONNECTIONS_PER_CLIENT} clients more, "
        f"of {CONNECTIONS_PER_CLIENT} at most",
    )


# The doctor's queries; they read only what every user may read.

# The settings of our own session. The session pins the timeout for idle transactions, so we read
# the default of that setting, which applies to other sessions.
SETTINGS_QUERY = """
SELECT name, CASE name WHEN 'idle_in_transaction_session_timeout' THEN reset_val ELSE setting END
FROM pg_settings WHERE name IN (
    'server_encoding', 'fsync', 'synchronous_commit', 'synchronous_standby_names',
    'transaction_isolation', 'default_transaction_read_only', 'max_connections',
    'superuser_reserved_connections', 'reserved_connections', 'idle_session_timeout',
    'idle_in_transaction_session_timeout', 'tcp_keepalives_idle', 'tcp_keepalives_interval',
    'tcp_keepalives_count'
)
"""

# A user without the privilege to see more sees only that there is a standby.
STANDBYS_QUERY = """
SELECT application_name, sync_state FROM pg_stat_replication
WHERE application_name IS DISTINCT FROM 'pg_basebackup'
"""

CONNECTIONS_QUERY = "SELECT coalesce(sum(numbackends), 0)::bigint FROM pg_stat_database"

# Not every user may see other users' queries, but every user may see the age of their snapshots.
# Sessions of other databases do not hold back our tables. A transaction that has only begun to
# write counts like a snapshot.
OLDEST_SNAPSHOT_QUERY = """
SELECT whose, transactions, seconds FROM (
    SELECT 'session ' || pid || coalesce(' of ' || usename, '')
            || coalesce(', ' || nullif(application_name, ''), ''),
        greatest(age(backend_xmin), age(backend_xid))::bigint,
        extract(epoch FROM clock_timestamp() - xact_start)::float8
    FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
    UNION ALL
    SELECT 'prepared transaction ' || gid, age(transaction)::bigint,
        extract(epoch FROM clock_timestamp() - prepared)::float8
    FROM pg_prepared_xacts WHERE database = current_database()
    UNION ALL
    SELECT 'replication slot ' || slot_name, age(xmin)::bigint, NULL FROM pg_replication_slots
    UNION ALL
    SELECT 'standby ' || coalesce(application_name, pid::text), age(backend_xmin)::bigint, NULL
    FROM pg_stat_replication
) AS kept (whose, transactions, seconds)
WHERE transactions IS NOT NULL ORDER BY transactions DESC LIMIT 1
"""

# The schema is looked up in the catalogue, because naming a table in a schema that we may not use
# is an error.
RIGHTS_QUERY = """
SELECT quote_ident(current_user), n.oid IS NOT NULL,
    coalesce(has_schema_privilege(n.oid, 'USAGE'), false),
    CASE WHEN n.oid IS NULL THEN has_database_privilege(current_database(), 'CREATE')
        ELSE has_schema_privilege(n.oid, 'CREATE') END
FROM (SELECT) AS one LEFT JOIN pg_namespace AS n ON n.nspname = $1
"""
TABLE_RIGHTS_QUERY = """
SELECT has_table_privilege(c.oid, 'SELECT'), has_table_privilege(c.oid, 'INSERT'),
    has_table_privilege(c.oid, 'UPDATE'), has_table_privilege(c.oid, 'DELETE')
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relname = $2
"""

TIME_QUERY = "SELECT extract(epoch FROM clock_timestamp())::float8"
