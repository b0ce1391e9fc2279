"""What a server's own words say about the promises that locks on it can keep; pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockfast.backends.postgresql.standbys import Standby, replication
from lockfast.backends.sql.clock_findings import clock
from lockfast.model import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

OLDEST = 12

PER_CLIENT = 5
"""Four connections to work on, and one to listen."""

OLD_SECONDS = 300.0
OLD_TRANSACTIONS = 10_000
"""A snapshot as old as either keeps enough dead rows to be felt: after 40,000 a cycle on one
name took eight times as long."""

SLOW_TO_NOTICE = 300.0

ONE_CONNECTION = (
    "the locks were given one connection, which cannot work and listen at once, so who waits has "
    "to ask again and again"
)

NEEDED = ("SELECT", "INSERT", "UPDATE", "DELETE")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The oldest that somebody in this database keeps: whose, and how old; None is unseen."""

    whose: str
    transactions: int
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Rights:
    """What is there of schema and tables, and what this user may do with it.

    `missing` has for each table that is there what this user may not do; `strange` is the
    sentence that says why a table of that name is not ours.
    """

    user: str
    schema: str
    tables: tuple[str, str]
    schema_is_there: bool
    may_use: bool
    may_make: bool
    missing: Mapping[str, Sequence[str]]
    strange: str | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """What could be read; None stands for what this user may not read.

    `ahead` is by how many seconds the server's clock is ahead of ours, at least; `push` whether
    its notifications reach us, None if nobody tried. `settings` are those of our own session.
    `room` is how many connections the application lends at once, None where they are ours.
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


def findings(facts: Facts) -> list[Finding]:
    """Return what an operator should know."""
    return [
        *_server(facts),
        _pooler(facts),
        *_writable(facts),
        *_durability(facts.settings),
        *([] if facts.is_standby else replication(facts.settings, facts.standbys)),
        clock(facts.ahead),
        _permissions(facts.rights),
        _isolation(facts.settings),
        _snapshot(facts.snapshot),
        *_timeouts(facts.settings),
        *_keepalives(facts),
        *_connections(facts),
    ]


def _server(facts: Facts) -> Iterator[Finding]:
    # The number is 150020 for 15.20.
    major, minor = divmod(facts.version, 10_000)
    what = f"{facts.where} is PostgreSQL {major}.{minor}"
    if major < OLDEST:
        yield Finding(
            "error",
            "server",
            f"{what}, which lacks what Lockfast's statements need",
            f"PostgreSQL {OLDEST} or newer is needed",
        )
    else:
        yield Finding("ok", "server", what)
    encoding = facts.settings.get("server_encoding", "UTF8")
    if encoding != "UTF8":
        yield Finding(
            "warning",
            "encoding",
            f"this database's encoding is {encoding}: an owner or a label with another letter is "
            "refused",
            "a database with ENCODING 'UTF8' for the locks",
        )


def _pooler(facts: Facts) -> Finding:
    if facts.room == 1:
        return Finding(
            "warning",
            "one connection",
            f"{ONE_CONNECTION}; all else is as safe as with more",
            "give them a pool with room for two, or the URL",
        )
    if facts.push is False:
        return Finding(
            "warning",
            "pooler",
            "notifications do not reach us, most likely because of a pooler in transaction mode: "
            "who waits has to ask again and again, and no statement can be prepared; all else is "
            "as safe as without it",
            "give the server's own address for the locks, or a pooler in session mode",
        )
    if facts.is_pooled:
        return Finding(
            "ok",
            "pooler",
            "a pooler that lets a connection be ours (session mode); statements are not prepared",
        )
    return Finding("ok", "pooler", "no pooler stands between us and the server")


def _writable(facts: Facts) -> Iterator[Finding]:
    if facts.is_standby:
        yield Finding(
            "error",
            "replication",
            f"{facts.where} is a standby, which takes no writes: nothing can be locked",
            "give the primary's address, or all of them (postgresql://host1,host2/database)",
        )
    elif facts.settings.get("default_transaction_read_only") == "on":
        yield Finding(
            "error",
            "read only",
            "default_transaction_read_only is on: nothing can be locked",
            f"ALTER ROLE {facts.rights.user} SET default_transaction_read_only = off",
        )


def _durability(settings: Mapping[str, str]) -> Iterator[Finding]:
    if settings.get("fsync") == "off":
        yield Finding(
            "error",
            "durability",
            "fsync is off: a power cut may destroy the whole database, not only the locks",
            "fsync = on, and a restart",
        )
    elif settings.get("synchronous_commit") == "off":
        yield Finding(
            "warning",
            "durability",
            "synchronous_commit is off: a server that crashes forgets the leases and tokens of "
            "its last second, so two may both believe they hold a lock, with the same token",
            "ALTER ROLE or ALTER DATABASE ... SET synchronous_commit = on, for those who lock",
        )
    else:
        yield Finding("ok", "durability", "every grant is on disk before it counts")


def _permissions(rights: Rights) -> Finding:
    names = ", ".join(rights.tables)
    grant = f"GRANT {', '.join(NEEDED)} ON {names} TO {rights.user}"
    if rights.schema_is_there and not rights.may_use:
        return Finding(
            "error",
            "permissions",
            f"{rights.user} may not use the schema {rights.schema}",
            f'GRANT USAGE ON SCHEMA "{rights.schema}" TO {rights.user}; {grant}',
        )
    if rights.strange is not None:
        return Finding(
            "error", "permissions", rights.strange, "another table= or schema= in the URL"
        )
    if len(rights.missing) < len(rights.tables):
        if rights.may_make:
            return Finding(
                "note",
                "tables",
                f"the tables {names} are not there yet; the first use makes them",
                "lockfast init makes them now",
            )
        return Finding(
            "error",
            "tables",
            f"the tables {names} are not there, and {rights.user} may not make them",
            f"run lockfast init as a user that may, then {grant}",
        )
    lacking = {one: missing for one, missing in rights.missing.items() if missing}
    if lacking:
        said = "; ".join(f"{', '.join(missing)} on {one}" for one, missing in lacking.items())
        return Finding("error", "permissions", f"{rights.user} may not {said}", grant)
    return Finding("ok", "permissions", f"{rights.user} may do all that is needed on {names}")


def _isolation(settings: Mapping[str, str]) -> Finding:
    level = settings.get("transaction_isolation", "read committed")
    if level == "read committed":
        return Finding("ok", "isolation", "read committed, whatever the server's default is")
    return Finding(
        "error",
        "isolation",
        f"our transactions run as {level}, although we set READ COMMITTED: a read after a lock may "
        "miss what others have just written",
        "find out what changes that setting between this client and the server, such as a pooler",
    )


def _snapshot(oldest: Snapshot | None) -> Finding:
    if oldest is None:
        return Finding("ok", "old snapshot", "nobody keeps the tables from being cleaned")
    age = f"{oldest.transactions} transactions"
    if oldest.seconds is not None:
        age = f"{oldest.seconds:.0f} s and {age}"
    if oldest.transactions < OLD_TRANSACTIONS and (oldest.seconds or 0.0) < OLD_SECONDS:
        return Finding("ok", "old snapshot", f"the oldest is {age} old ({oldest.whose})")
    return Finding(
        "warning",
        "old snapshot",
        f"{oldest.whose} looks at the database as it was {age} ago: until it ends, no row that "
        "changed since is cleaned, and locks that are used often get slower and slower",
        "end it, or let dumps and long reports run on a standby without hot_standby_feedback",
    )


def _timeouts(settings: Mapping[str, str]) -> Iterator[Finding]:
    # Ours are ended after two seconds in any case, by what each of our transactions asks for.
    if settings.get("idle_in_transaction_session_timeout", "0") == "0":
        yield Finding(
            "note",
            "forgotten transactions",
            "idle_in_transaction_session_timeout is 0: a transaction that an application forgets "
            "is never ended, and keeps the tables from being cleaned",
            "idle_in_transaction_session_timeout = '10min', or whatever the longest may take",
        )
    else:
        milliseconds = int(settings["idle_in_transaction_session_timeout"])
        yield Finding(
            "ok", "forgotten transactions", f"they are ended after {milliseconds / 1000:g} s"
        )
    idle = int(settings.get("idle_session_timeout", "0")) / 1000
    if idle:
        yield Finding(
            "warning",
            "idle sessions",
            f"idle_session_timeout is {idle:g} s: it ends the connection that listens, which is "
            "idle by nature; until there is another, who waits is not woken",
            "ALTER ROLE ... SET idle_session_timeout = 0, for those who lock",
        )


def _keepalives(facts: Facts) -> Iterator[Finding]:
    idle, interval, count = (
        int(facts.settings.get(f"tcp_keepalives_{one}", "0")) for one in _KEEPALIVES
    )
    if not idle or facts.is_pooled:
        return  # a socket of this machine, or the pooler's connection
    seconds = idle + interval * count
    if seconds <= SLOW_TO_NOTICE:
        yield Finding("ok", "keepalives", f"a client that vanished is noticed after {seconds} s")
        return
    yield Finding(
        "note",
        "keepalives",
        f"the server notices only after {seconds} s that a client's machine has vanished: so long "
        "its connections are taken",
        "tcp_keepalives_idle = 60, tcp_keepalives_interval = 10, tcp_keepalives_count = 6",
    )


_KEEPALIVES = ("idle", "interval", "count")


def _connections(facts: Facts) -> Iterator[Finding]:
    if facts.is_pooled or facts.room is not None:
        return  # the pooler's clients do not count there, and what is lent is there already
    settings = facts.settings
    most = int(settings["max_connections"])
    kept = ("superuser_reserved_connections", "reserved_connections")
    left = most - facts.connections - sum(int(settings.get(one, "0")) for one in kept)
    said = f"{max(0, left)} of {most} connections are left"
    if left < PER_CLIENT:
        yield Finding(
            "warning",
            "connections",
            f"{said}, and a client takes up to {PER_CLIENT}: the next may be turned away",
            "raise max_connections, put a pooler before the server, or give fewer connections=",
        )
        return
    yield Finding(
        "ok", "connections", f"{said}: {left // PER_CLIENT} clients more, of {PER_CLIENT} at most"
    )
