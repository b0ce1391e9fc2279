"""What `lockfast doctor` finds about the Sentinels: whether they could replace the master."""

from __future__ import annotations

from typing import Any

import pytest
from servers.redis import shared_server
from servers.redis_sentinels import shared_sentinels

from lockfast import Finding
from lockfast_challenge.servers.redis_sentinel import SERVICE, Sentinels


@pytest.fixture
def findings(flavour):
    def found(servers: Sentinels, *subjects: str, **options: Any) -> list[Finding]:
        locks = flavour.locks(servers.url, **options)
        return [one for one in locks.diagnose() if one.subject in subjects]

    return found


@pytest.fixture(scope="module")
def two():
    """Two Sentinels, as in some deployments."""
    with Sentinels(count=2) as found:
        yield found


@pytest.fixture
def quorum():
    changed = []

    def change(servers: Sentinels, number: int) -> None:
        changed.append(servers)
        servers.tell_sentinels("SENTINEL", "SET", SERVICE, "quorum", str(number))

    yield change
    for servers in changed:
        servers.tell_sentinels("SENTINEL", "SET", SERVICE, "quorum", "2")


def test_three_sentinels_are_well(findings):
    [found] = findings(shared_sentinels(), "sentinels", "quorum")

    assert found.level == "ok"
    assert found.message == "3, of whom 2 must agree that the master fails"


def test_two_sentinels_are_too_few(findings, two):
    [found] = findings(two, "sentinels", "quorum")

    assert found.level == "warning"
    assert "there are 2: if one fails, the rest are no majority" in found.message


def test_a_quorum_that_is_never_reached(findings, two, quorum):
    quorum(two, 3)

    [found] = findings(two, "sentinels", "quorum")

    assert found.level == "error"
    assert "the quorum is 3, and there are 2 Sentinels" in found.message


def test_a_quorum_of_one(findings, quorum):
    quorum(shared_sentinels(), 1)

    [_, found] = findings(shared_sentinels(), "sentinels", "quorum")

    assert found.level == "note"
    assert "a single Sentinel" in found.message
    assert "quorum 2" in found.remedy


def test_a_sentinel_that_does_not_answer_is_named(findings):
    servers = shared_sentinels()
    silent = servers.sentinels[1]
    silent.pause()
    try:
        [found, _] = findings(servers, "sentinels", request_timeout=1.6)
    finally:
        silent.resume()

    assert found.level == "warning"
    assert found.message.startswith(f"127.0.0.1:{silent.port} does not answer: ")


def test_sentinels_that_do_not_agree(findings, two):
    """Sentinels may disagree briefly after a failover; here one Sentinel is misconfigured."""
    other = two.sentinels[1]
    stranger = "127.0.0.1", shared_server().port, 2
    with other.client() as client:
        client.execute_command("SENTINEL", "REMOVE", SERVICE)
        [unaware, *_] = findings(two, "sentinels")
        client.execute_command("SENTINEL", "MONITOR", SERVICE, *stranger)

    *_, found = findings(two, "sentinels")

    assert unaware.message == f"127.0.0.1:{other.port} does not watch {SERVICE}"
    assert found.level == "warning"
    assert "do not agree who is the master" in found.message
    assert str(shared_server().port) in found.message
