"""What a server's own words say about the promises of advisory locks on it; pure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from holdfast.backends.sql.advisory_findings import no_records, silence
from holdfast.backends.sql.steps import Ask
from holdfast.model import Finding

if TYPE_CHECKING:
    from collections.abc import Mapping

# Those of our own session: what was set for it stands here.
SETTINGS = Ask("""
SELECT name, setting FROM pg_settings WHERE name IN (
    'server_version', 'idle_session_timeout', 'tcp_keepalives_idle', 'max_connections',
    'max_locks_per_transaction'
)
""")

SLOW_TO_NOTICE = 300
"""An idle connection that is cut is asked after so many seconds at most."""


def findings(
    settings: Mapping[str, str], *, ttl: float, is_pooled: bool, where: str
) -> list[Finding]:
    """Return what an operator should know; `settings` are the rows of `SETTINGS`."""
    return [
        Finding("ok", "server", f"{where} is PostgreSQL {settings['server_version']}"),
        no_records("a restart, a failover"),
        _pooler(is_pooled=is_pooled),
        silence(
            "idle_session_timeout",
            int(settings["idle_session_timeout"]) / 1000,
            wanted=math.ceil(ttl * 1000) / 1000,
        ),
        _keepalives(int(settings["tcp_keepalives_idle"])),
        _room(int(settings["max_locks_per_transaction"]), int(settings["max_connections"])),
    ]


def _pooler(*, is_pooled: bool) -> Finding:
    if not is_pooled:
        return Finding("ok", "pooler", "none stands between")
    return Finding(
        "note",
        "pooler",
        "a pooler keeps one session of the server for each client that uses locks, as it must: "
        "so many of its connections are never free for others",
        "a pool in session mode that is large enough for all clients, with DISCARD ALL as its "
        "server_reset_query",
    )


def _keepalives(idle: int) -> Finding:
    if 0 < idle <= SLOW_TO_NOTICE:
        return Finding("ok", "keepalives", f"the server asks after {idle} s of silence")
    # Zero is how a connection by a Unix socket shows.
    if idle == 0:
        return Finding("ok", "keepalives", "none are needed: it is the same machine")
    return Finding(
        "note",
        "keepalives",
        f"the server asks a silent client only after {idle} s whether it is there; ours ends by "
        "its heartbeats, long before",
        f"tcp_keepalives_idle of {SLOW_TO_NOTICE} or less, for the sake of other clients",
    )


def _room(per_transaction: int, connections: int) -> Finding:
    return Finding(
        "ok",
        "room",
        f"the server has room for about {per_transaction * connections} locks of all kinds at once "
        "(max_locks_per_transaction)",
    )
