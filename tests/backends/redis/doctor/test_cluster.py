"""What `lockfast doctor` finds on a cluster: problems of the whole cluster and of one node."""

from __future__ import annotations

from typing import Any

import pytest

from lockfast import Finding


@pytest.fixture
def setting(cluster):
    """Return a function that changes a setting on some nodes for the duration of the test."""
    changed = []

    def change(nodes, name: str, value: str) -> None:
        for one in nodes:
            [before] = cluster.ask(one, "CONFIG", "GET", name).values()
            changed.append((one, name, before))
            cluster.ask(one, "CONFIG", "SET", name, value)

    yield change
    for one, name, before in reversed(changed):
        cluster.ask(one, "CONFIG", "SET", name, before)


@pytest.fixture
def findings(flavour, cluster):
    def found(subject: str, **options: Any) -> list[Finding]:
        locks = flavour.locks(cluster.url, **options)
        return [one for one in locks.diagnose() if one.subject == subject]

    return found


def _address(server) -> str:
    return f"127.0.0.1:{server.port}"


def test_what_all_nodes_have_in_common_is_said_once(findings):
    [server] = findings("server")
    [coverage] = findings("coverage")
    [failover] = findings("failover")

    assert server.message.startswith("all 3 masters: Redis 7.")
    assert coverage.level == failover.level == "ok"


def test_what_is_wrong_with_one_node_names_it(findings, setting, cluster):
    [one, *others] = cluster.masters()
    setting([one], "maxmemory-policy", "allkeys-lru")

    bad = next(found for found in findings("eviction") if found.level != "ok")
    good = next(found for found in findings("eviction") if found.level == "ok")

    assert bad.message.startswith(f"{_address(one)}: maxmemory-policy is allkeys-lru")
    assert all(_address(other) in good.message for other in others)
    assert _address(one) not in good.message


def test_one_dead_node_would_stop_all(findings, setting, cluster):
    """By default, one dead node makes the whole cluster stop, so healthy nodes lose leases too."""
    setting(cluster.masters(), "cluster-require-full-coverage", "yes")

    [found] = findings("coverage")

    assert found.level == "warning"
    assert "leases on healthy ones are lost" in found.message
    assert "cluster-require-full-coverage no" in found.remedy


def test_a_failover_that_takes_longer_than_a_lease_lives(findings, setting, cluster):
    """With Redis's default node timeout, a failover takes longer than our default ttl."""
    setting(cluster.masters(), "cluster-node-timeout", "15000")

    [found] = findings("failover")

    assert found.level == "warning"
    assert "cluster-node-timeout is 15 s" in found.message
    assert "31 s" in found.remedy


def test_a_node_that_does_not_answer_hides_nothing_of_the_others(findings, setting, cluster):
    setting(cluster.servers, "cluster-node-timeout", "15000")  # prevents a failover
    [silent, *others] = cluster.masters()
    silent.pause()
    try:
        found = findings("server", request_timeout=3.0)
    finally:
        silent.resume()

    [wrong] = [one for one in found if one.level == "error"]
    [well] = [one for one in found if one.level == "ok"]
    assert wrong.message.startswith(_address(silent))
    assert all(_address(one) in well.message for one in others)


@pytest.mark.usefixtures("masters_stay")
def test_slots_that_no_node_serves_are_an_error(findings, cluster):
    """The doctor finds the unserved slots although all other nodes still name their owner."""
    node = cluster.masters()[0]
    first = next(one[0] for one in cluster.ask(node, "CLUSTER", "SLOTS") if one[2][1] == node.port)
    [before] = findings("slots", request_timeout=20.0)
    cluster.ask(node, "CLUSTER", "DELSLOTS", first, first + 1)
    try:
        [found] = findings("slots", request_timeout=20.0)
    finally:
        cluster.ask(node, "CLUSTER", "ADDSLOTS", first, first + 1)

    assert before == Finding("ok", "slots", "all 16384 slots have a node")
    assert found.level == "error"
    assert f"no node serves slots {first}-{first + 1} of 16384" in found.message
    assert "CLUSTER ADDSLOTSRANGE" in found.remedy
