"""What a server's own words say about the promises of GET_LOCK on it; pure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from holdfast.backends.mysql.findings import version_of
from holdfast.backends.sql.advisory_findings import no_records, silence
from holdfast.backends.sql.steps import Ask
from holdfast.model import Finding

if TYPE_CHECKING:
    from collections.abc import Mapping

# Those of our own session: what was set for it stands here. A server lists what it knows.
SETTINGS = Ask(
    "SHOW SESSION VARIABLES WHERE Variable_name IN ('version', 'wait_timeout', 'wsrep_on',"
    " 'log_bin')",
    (),
)


def findings(settings: Mapping[str, str], *, ttl: float) -> list[Finding]:
    """Return what an operator should know; `settings` are the rows of `SETTINGS`."""
    return [
        version_of(settings["version"]),
        no_records("a restart, a failover"),
        silence("wait_timeout", float(settings["wait_timeout"]), wanted=math.ceil(ttl)),
        _nodes(settings),
    ]


def _nodes(settings: Mapping[str, str]) -> Finding:
    if settings.get("wsrep_on", "OFF") == "ON":
        return Finding(
            "error",
            "nodes",
            "this server is a node of a cluster, and GET_LOCK keeps out the clients of this node "
            "alone",
            "leave mode=advisory out, or let all clients connect to this very node",
        )
    if settings.get("log_bin", "OFF") == "ON":
        return Finding(
            "note",
            "nodes",
            "this server may have replicas, which know nothing of its locks: after a failover "
            "everything is free at once",
            "leave mode=advisory out where that would do harm",
        )
    return Finding("ok", "nodes", "this server is alone")
