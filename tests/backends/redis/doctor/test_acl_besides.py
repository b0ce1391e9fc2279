"""Permissions beyond the smallest ACL: for a cluster, for durability, for another database."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from servers.redis import ValkeyServer

from lockfast import ConfigurationError
from lockfast.backends.redis import acl
from lockfast_challenge.servers.redis_cluster import slot_of

PAGE = Path(__file__).parents[4] / "docs" / "backends" / "redis.md"
NAMESPACE = "closed"
ON_CLUSTER = acl.commands(is_cluster=True, durability="replica")
SMALLEST = acl.smallest(NAMESPACE, ON_CLUSTER).split()
LOGIN = {"username": "clerk", "password": "pw", "namespace": NAMESPACE}


def _rule(command: str) -> str:
    return command.lower().replace(" ", "|")


@pytest.fixture
def clerk(cluster):
    """Return a function that sets the ACL rules of the user `clerk` on all nodes."""

    def rules(*changes: str) -> None:
        for one in cluster.servers:
            cluster.ask(one, "ACL", "SETUSER", "clerk", "reset", "on", ">pw", *changes)

    return rules


@pytest.mark.parametrize("rules", [acl.CLUSTER, ("WAIT",), ("WAITAOF",)])
def test_they_are_on_the_page(rules):
    assert f"`{acl.rules(rules)}`" in PAGE.read_text(encoding="utf-8")


def test_the_sentinels_rules_are_on_the_page():
    assert acl.SENTINEL in PAGE.read_text(encoding="utf-8")


def test_everything_works_on_a_cluster(flavour, clerk, cluster, eventually):
    """The rules cover all verbs, pushed wakeups, and a slot that moves under a held lock."""
    clerk(*SMALLEST)
    options = {**LOGIN, "durability": "replica", "ttl": 3.0}
    locks, other = (flavour.locks(cluster.url, **options) for _ in range(2))
    source, target, _ = cluster.masters()
    name = cluster.name_on(source, "door")

    lock = locks.lock(name)
    lease = lock.acquire()
    asked = target.calls("asking")
    with cluster.moving(slot_of(name), source, target) as move:
        move()
        fresh = flavour.start(other.lock(name).acquire, timeout=10)
        eventually(lambda: target.calls("asking") > asked)
    eventually(lambda: locks.inspect(name).line)
    lease.renew()
    lease.release()
    following = fresh.result(10)

    assert [one.token for one in locks.break_(name)] == [following.token]
    assert [one.name for one in locks.survey()] == []
    levels = {one.subject: one.level for one in locks.diagnose()}
    assert levels["permissions"] == "ok"
    assert levels["durability"] == "ok"


@pytest.mark.parametrize("command", [*acl.CLUSTER, "WAIT"])
def test_what_is_missing_on_a_cluster_is_named(flavour, clerk, cluster, command):
    clerk(*SMALLEST, f"-{_rule(command)}")
    locks = flavour.locks(cluster.url, durability="replica", **LOGIN)

    assert re.search(rf"\b{command.replace(' ', '.')}\b", _said(locks))


def _said(locks) -> str:
    """Return what the doctor says about permissions, in a finding or in an error.

    Without the slot map the doctor raises an error before it has any finding.
    """
    try:
        [found] = [one for one in locks.diagnose() if one.subject == "permissions"]
    except ConfigurationError as error:
        return str(error)
    assert found.level == "error"
    return found.message


def test_who_may_not_ask_for_the_proof_gets_no_lock(flavour, clerk, cluster):
    """A user who may not call WAIT is refused, not granted a lock without proof of durability."""
    clerk(*SMALLEST, "-wait")
    locks = flavour.locks(cluster.url, durability="replica", **LOGIN)

    with pytest.raises(ConfigurationError, match=r"needs \+wait"):
        locks.lock("door").acquire(timeout=1)


@pytest.fixture
def valkey():
    with ValkeyServer("--appendonly", "yes", "--appendfsync", "always") as one:
        yield one


def test_fsync_needs_waitaof(flavour, valkey):
    rules = acl.smallest(NAMESPACE, acl.commands(durability="fsync")).split()
    with valkey.client() as admin:
        admin.execute_command("ACL", "SETUSER", "clerk", "reset", "on", ">pw", *rules)
        locks = flavour.locks(valkey.url, durability="fsync", **LOGIN)
        locks.lock("door").acquire(timeout=1).release()
        levels = {one.subject: one.level for one in locks.diagnose()}
        assert (levels["permissions"], levels["durability"]) == ("ok", "ok")

        admin.execute_command("ACL", "SETUSER", "clerk", "-waitaof")
        assert "WAITAOF" in _said(locks)
        with pytest.raises(ConfigurationError, match=r"needs \+waitaof"):
            locks.lock("door").acquire(timeout=1)


def test_another_database_needs_select(flavour, server, admin):
    rules = acl.smallest(NAMESPACE).split()
    admin.execute_command("ACL", "SETUSER", "clerk", "reset", "on", ">pw", *rules, "+select")
    flavour.locks(f"{server.url}/3", **LOGIN).lock("door").acquire(timeout=1).release()

    admin.execute_command("ACL", "SETUSER", "clerk", "-select")

    with pytest.raises(ConfigurationError, match=r"needs \+select"):
        flavour.locks(f"{server.url}/3", **LOGIN).lock("door").acquire(timeout=1)
