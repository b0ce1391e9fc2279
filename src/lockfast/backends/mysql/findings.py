"""What a server's own settings say of what it can promise; pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lockfast.backends.mysql.statements import NOW
from lockfast.backends.sql.steps import Ask
from lockfast.model import Finding

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lockfast.backends.mysql.schema import Tables
    from lockfast.backends.sql.steps import Rows

SETTINGS = Ask(
    "SELECT VERSION(), @@GLOBAL.innodb_flush_log_at_trx_commit, @@GLOBAL.log_bin,"
    " @@GLOBAL.sync_binlog",
    (),
)

SESSION = Ask(
    "SHOW SESSION VARIABLES WHERE Variable_name IN ('transaction_isolation', 'tx_isolation',"
    " 'log_bin', 'binlog_format', 'wait_timeout', 'tcp_keepalive_time', 'tcp_keepalive_interval',"
    " 'tcp_keepalive_probes')",
    (),
)
"""What holds for our own sessions; a server lists what it knows, and not all know all."""

SLOW_TO_NOTICE = 300.0

OLDEST = {"MariaDB": (10, 6), "MySQL": (8, 0)}
"""What has all that our statements say."""

OLDEST_TRIED = {"MariaDB": (10, 11), "MySQL": (9, 7)}
"""What the tests run on: Debian's stable and unstable releases."""

TIME = Ask(f"SELECT {NOW}", ())


def findings(rows: Rows) -> Sequence[Finding]:
    """Return what there is to say of the answer to `SETTINGS`."""
    [(version, flush, has_binlog, sync)] = rows
    return (
        version_of(str(version)),
        _durability(int(flush)),
        _replicas(int(has_binlog), int(sync)),
    )


def of_session(settings: Mapping[str, str]) -> Sequence[Finding]:
    """Return what there is to say of the answer to `SESSION`."""
    return (_isolation(settings), _keepalives(settings))


def version_of(version: str) -> Finding:
    """Tell which server it is, whether it is new enough, and whether it was ever tried."""
    kind = "MariaDB" if "mariadb" in version.lower() else "MySQL"
    number = re.match(r"(?:5\.5\.5-)?(\d+)\.(\d+)", version)  # what an old proxy says first
    oldest = OLDEST[kind]
    if number is not None and (int(number[1]), int(number[2])) < oldest:
        needed = ".".join(map(str, oldest))
        return Finding(
            "error",
            "server",
            f"{kind} {version}, which lacks what Lockfast's statements need",
            f"{kind} {needed} or newer is needed",
        )
    if number is None or (int(number[1]), int(number[2])) >= OLDEST_TRIED[kind]:
        return Finding("ok", "server", f"{kind} {version}")
    tried = ".".join(map(str, OLDEST_TRIED[kind]))
    return Finding(
        "note",
        "server",
        f"{kind} {version}, on which the tests do not run: the oldest they run on is {tried}",
        "run `lockfast challenge` against it before you rely on it",
    )


def _durability(flush: int) -> Finding:
    if flush == 1:
        return Finding("ok", "durability", "what was committed survives a crash of the machine")
    return Finding(
        "warning",
        "durability",
        f"innodb_flush_log_at_trx_commit is {flush}: a crash forgets leases and tokens of the "
        "last second",
        "set it to 1",
    )


def _replicas(has_binlog: int, sync: int) -> Finding:
    if not has_binlog:
        return Finding("ok", "replication", "none: there is no binary log")
    synced = "" if sync == 1 else f"; sync_binlog is {sync}"
    return Finding(
        "note",
        "replication",
        f"this server may have replicas{synced}: a failover forgets the leases whose commit had "
        "not arrived there",
        "use semi-synchronous replication, and let the resource refuse smaller tokens",
    )


def _isolation(settings: Mapping[str, str]) -> Finding:
    level = settings.get("transaction_isolation") or settings.get("tx_isolation", "")
    logs = settings.get("log_bin") == "ON" and settings.get("binlog_format") == "STATEMENT"
    if logs:
        # InnoDB refuses every write of a transaction that reads what is committed.
        return Finding(
            "error",
            "isolation",
            "binlog_format is STATEMENT, which cannot log what is written at READ COMMITTED, as "
            "our statements need it: nothing can be locked",
            "set binlog_format to MIXED or ROW",
        )
    if level == "READ-COMMITTED":
        return Finding("ok", "isolation", "read committed, whatever the server's default is")
    return Finding(
        "error",
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
    if seconds <= SLOW_TO_NOTICE:
        said = f"a client that vanished is noticed after {seconds:.0f} s"
        return Finding("ok", "keepalives", said)
    return Finding(
        "note",
        "keepalives",
        f"the server notices only after {seconds:.0f} s that a client's machine has vanished: so "
        "long its connections are taken",
        "tcp_keepalive_time = 60, tcp_keepalive_interval = 10, tcp_keepalive_probes = 6 where the "
        "server has them, or a shorter wait_timeout for the connections that are lent",
    )


def not_there(tables: Tables) -> Finding:
    """Say that the tables are missing; a server hides those of which a user may do nothing."""
    return Finding(
        "note",
        "tables",
        f"the tables {tables.door}, {tables.place} are not there yet, or this user may do nothing "
        "with them; the first use makes them, if it may",
        "lockfast init makes them now",
    )


def not_allowed(refusal: str, tables: Tables) -> Finding:
    """Say what a trial of the tables was told."""
    return Finding(
        "error",
        "permissions",
        refusal,
        "GRANT SELECT, INSERT, UPDATE, DELETE on both to this user, if they are Lockfast's: "
        f"{tables.door}, {tables.place}",
    )


def allowed(tables: Tables) -> Finding:
    """Say that nothing is missing."""
    return Finding(
        "ok",
        "permissions",
        f"this user may do all that is needed on {tables.door}, {tables.place}",
    )
