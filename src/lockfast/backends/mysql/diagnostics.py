"""Findings about what a server can guarantee, from its own settings; pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lockfast.backends.mysql.statements import NOW
from lockfast.backends.sql.steps import Query
from lockfast.model import Finding

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lockfast.backends.mysql.schema import MysqlTables
    from lockfast.backends.sql.steps import Rows

SETTINGS_QUERY = Query(
    "SELECT VERSION(), @@GLOBAL.innodb_flush_log_at_trx_commit, @@GLOBAL.log_bin,"
    " @@GLOBAL.sync_binlog",
    (),
)

SESSION_QUERY = Query(
    "SHOW SESSION VARIABLES WHERE Variable_name IN ('transaction_isolation', 'tx_isolation',"
    " 'log_bin', 'binlog_format', 'wait_timeout', 'tcp_keepalive_time', 'tcp_keepalive_interval',"
    " 'tcp_keepalive_probes')",
    (),
)
"""The settings of our own sessions; each server lists only the variables that it has."""

SLOW_TO_NOTICE_SECONDS = 300.0

OLDEST_SERVER = {"MariaDB": (10, 6), "MySQL": (8, 0)}
"""The oldest versions that support everything in our statements."""

OLDEST_TRIED = {"MariaDB": (10, 11), "MySQL": (9, 7)}
"""The oldest versions that the tests run on, which are those in Debian's stable and unstable
releases."""

TIME_QUERY = Query(f"SELECT {NOW}", ())


def findings(rows: Rows) -> Sequence[Finding]:
    """Return the findings from the answer to `SETTINGS_QUERY`."""
    [(version, flush, has_binlog, sync)] = rows
    return (
        version_of(str(version)),
        _durability(int(flush)),
        _replicas(int(has_binlog), int(sync)),
    )


def of_session(settings: Mapping[str, str]) -> Sequence[Finding]:
    """Return the findings from the answer to `SESSION_QUERY`."""
    return (_isolation(settings), _keepalives(settings))


def version_of(version: str) -> Finding:
    """Return the finding about the server's version, which may be too old, untested, or fine."""
    kind = "MariaDB" if "mariadb" in version.lower() else "MySQL"
    number = re.match(r"(?:5\.5\.5-)?(\d+)\.(\d+)", version)  # old proxies send this prefix
    oldest = OLDEST_SERVER[kind]
    if number is not None and (int(number[1]), int(number[2])) < oldest:
        needed = ".".join(map(str, oldest))
        return Finding.error(
            "server",
            f"{kind} {version}, which lacks what Lockfast's statements need",
            f"{kind} {needed} or newer is needed",
        )
    if number is None or (int(number[1]), int(number[2])) >= OLDEST_TRIED[kind]:
        return Finding.ok("server", f"{kind} {version}")
    tried = ".".join(map(str, OLDEST_TRIED[kind]))
    return Finding.note(
        "server",
        f"{kind} {version}, on which the tests do not run: the oldest they run on is {tried}",
        "run `lockfast challenge` against it before you rely on it",
    )


def _durability(flush: int) -> Finding:
    if flush == 1:
        return Finding.ok("durability", "what was committed survives a crash of the machine")
    return Finding.warning(
        "durability",
        f"innodb_flush_log_at_trx_commit is {flush}: a crash forgets leases and tokens of the "
        "last second",
        "set it to 1",
    )


def _replicas(has_binlog: int, sync: int) -> Finding:
    if not has_binlog:
        return Finding.ok("replication", "none: there is no binary log")
    synced = "" if sync == 1 else f"; sync_binlog is {sync}"
    return Finding.note(
        "replication",
        f"this server may have replicas{synced}: a failover forgets the leases whose commit had "
        "not arrived there",
        "use semi-synchronous replication, and let the resource refuse smaller tokens",
    )


def _isolation(settings: Mapping[str, str]) -> Finding:
    level = settings.get("transaction_isolation") or settings.get("tx_isolation", "")
    logs = settings.get("log_bin") == "ON" and settings.get("binlog_format") == "STATEMENT"
    if logs:
        # With this format, InnoDB refuses every write of a READ COMMITTED transaction.
        return Finding.error(
            "isolation",
            "binlog_format is STATEMENT, which cannot log what is written at READ COMMITTED, as "
            "our statements need it: nothing can be locked",
            "set binlog_format to MIXED or ROW",
        )
    if level == "READ-COMMITTED":
        return Finding.ok("isolation", "read committed, whatever the server's default is")
    return Finding.error(
        "isolation",
        f"our session is at {level or 'an unknown level'}, although READ COMMITTED was asked for: "
        "a read after a lock may miss what others have just written",
        "see what changes settings between this client and the server",
    )


def _keepalives(settings: Mapping[str, str]) -> Finding:
    idle, every, times = (
        float(settings.get(f"tcp_keepalive_{one}", "0")) for one in ("time", "interval", "probes")
    )
    noticed = [float(settings["wait_timeout"])]
    if idle and every and times:
        noticed.append(idle + every * times)
    seconds = min(noticed)
    if seconds <= SLOW_TO_NOTICE_SECONDS:
        said = f"a client that vanished is noticed after {seconds:.0f} s"
        return Finding.ok("keepalives", said)
    return Finding.note(
        "keepalives",
        f"the server notices only after {seconds:.0f} s that a client's machine has vanished: so "
        "long its connections are taken",
        "tcp_keepalive_time = 60, tcp_keepalive_interval = 10, tcp_keepalive_probes = 6 where the "
        "server has them, or a shorter wait_timeout for the connections that are lent",
    )


def not_there(tables: MysqlTables) -> Finding:
    """Return the finding for missing tables; a server also hides tables from unprivileged users."""
    return Finding.note(
        "tables",
        f"the tables {tables.door}, {tables.place} are not there yet, or this user may do nothing "
        "with them; the first use makes them, if it may",
        "lockfast init makes them now",
    )


def not_allowed(refusal: str, tables: MysqlTables) -> Finding:
    """Return the finding for a refused permission check."""
    return Finding.error(
        "permissions",
        refusal,
        "GRANT SELECT, INSERT, UPDATE, DELETE on both to this user, if they are Lockfast's: "
        f"{tables.door}, {tables.place}",
    )


def allowed(tables: MysqlTables) -> Finding:
    """Return the finding for complete permissions."""
    return Finding.ok(
        "permissions", f"this user may do all that is needed on {tables.door}, {tables.place}"
    )
