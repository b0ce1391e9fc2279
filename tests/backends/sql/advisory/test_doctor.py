"""What the doctor says of advisory locks: what is missing, and what a setting makes worse."""

from __future__ import annotations

import pytest
from servers.pgbouncer import PgBouncer
from servers.postgresql import shared_server

from holdfast.backends.mysql import advisory_findings as of_mysql
from holdfast.backends.postgresql import advisory_findings as of_postgresql
from holdfast.backends.sql.advisory_findings import silence


def test_a_server_as_it_is_installed(store, flavour, url):
    found = {one.subject: one for one in flavour.locks(url, ttl=7.0).diagnose()}

    assert found["server"].level == "ok"
    assert found["silence"].level == "ok"
    assert "after 7 s" in found["silence"].message
    assert found["records"].level == "note"
    assert "no fencing tokens" in found["records"].message
    assert not [one for one in found.values() if one.level in ("warning", "error")]


def test_a_pooler_in_session_mode_is_noted(flavour):
    with PgBouncer(shared_server(), mode="session") as pooler:
        locks = flavour.locks(pooler.url(), mode="advisory", request_timeout=10.0)
        [found] = [one for one in locks.diagnose() if one.subject == "pooler"]
        (locks.close if flavour.name == "sync" else locks.aclose)()

    assert found.level == "note"
    assert "never free for others" in found.message


def test_a_setting_that_is_not_as_it_was_asked_for_is_an_error():
    """Something between changes it; then the holder and the server count differently."""
    assert silence("wait_timeout", 30.0, wanted=30.0).level == "ok"
    assert silence("wait_timeout", 28800.0, wanted=30.0).level == "error"


@pytest.mark.parametrize(
    ("settings", "level", "said"),
    [
        ({}, "ok", "alone"),
        ({"wsrep_on": "OFF", "log_bin": "ON"}, "note", "after a failover"),
        ({"wsrep_on": "ON", "log_bin": "ON"}, "error", "this node alone"),
    ],
)
def test_nodes_that_know_nothing_of_each_others_locks(settings, level, said):
    settings = {"version": "10.11.19-MariaDB", "wait_timeout": "30", **settings}
    [found] = [one for one in of_mysql.findings(settings, ttl=30.0) if one.subject == "nodes"]

    assert found.level == level
    assert said in found.message


@pytest.mark.parametrize(("idle", "level"), [("0", "ok"), ("60", "ok"), ("7200", "note")])
def test_keepalives_of_the_server(idle, level):
    settings = {
        "server_version": "15.8",
        "idle_session_timeout": "30000",
        "tcp_keepalives_idle": idle,
        "max_connections": "100",
        "max_locks_per_transaction": "64",
    }
    found = of_postgresql.findings(settings, ttl=30.0, is_pooled=False, where="here")

    assert [one.level for one in found if one.subject == "keepalives"] == [level]
    assert "6400" in next(one.message for one in found if one.subject == "room")
