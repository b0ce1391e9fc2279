"""What a server's own settings say of what it can promise; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.backends.mysql.statements import NOW
from holdfast.backends.sql.steps import Ask
from holdfast.model import Finding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.backends.mysql.schema import Tables
    from holdfast.backends.sql.steps import Rows

SETTINGS = Ask(
    "SELECT VERSION(), @@GLOBAL.innodb_flush_log_at_trx_commit, @@GLOBAL.log_bin,"
    " @@GLOBAL.sync_binlog",
    (),
)

TIME = Ask(f"SELECT {NOW}", ())


def findings(rows: Rows) -> Sequence[Finding]:
    """Return what there is to say of the answer to `SETTINGS`."""
    [(version, flush, has_binlog, sync)] = rows
    return (
        version_of(str(version)),
        _durability(int(flush)),
        _replicas(int(has_binlog), int(sync)),
    )


def version_of(version: str) -> Finding:
    """Tell which server it is, and whether it was ever tried."""
    if "mariadb" in version.lower():
        return Finding("ok", "server", f"MariaDB {version}")
    return Finding(
        "note",
        "server",
        f"MySQL {version}, on which Holdfast's statements were never run",
        "try it before you rely on it; MariaDB 10.11 is what the tests run on",
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


def not_there(tables: Tables) -> Finding:
    """Say that the tables are missing; a server hides those of which a user may do nothing."""
    return Finding(
        "note",
        "permissions",
        f"the tables {tables.door}, {tables.place} are not there yet, or this user may do nothing "
        "with them; the first use makes them, if it may",
        "holdfast init makes them now",
    )


def not_allowed(refusal: str, tables: Tables) -> Finding:
    """Say what a trial of the tables was told."""
    return Finding(
        "error",
        "permissions",
        refusal,
        "GRANT SELECT, INSERT, UPDATE, DELETE on both to this user, if they are Holdfast's: "
        f"{tables.door}, {tables.place}",
    )


def allowed(tables: Tables) -> Finding:
    """Say that nothing is missing."""
    return Finding(
        "ok",
        "permissions",
        f"this user may do all that is needed on {tables.door}, {tables.place}",
    )
