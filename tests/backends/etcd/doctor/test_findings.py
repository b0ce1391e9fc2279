"""The doctor's findings on real deployments, and on versions that are not installed here."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from servers.etcd import shared_cluster, shared_server

from lockfast import Finding
from lockfast.backends.etcd._async.members import AsyncMembers
from lockfast.backends.etcd._sync.members import Members
from lockfast.backends.etcd.diagnostics import ClusterFacts, findings
from lockfast.backends.etcd.replies import CORRUPT, Alarm, State, read_reply
from lockfast_challenge.processes import eventually
from lockfast_challenge.servers.certificates import certificates
from lockfast_challenge.servers.etcd import EtcdServer


def facts(**known: Any) -> ClusterFacts:
    state = State(version="3.5.16", leader=1)
    usual = {
        "where": "etcd://h",
        "states": [state] * 3,
        "members": None,
        "alarms": (),
        "shortest": 2,
        "asked": 30.0,
        "granted": 30.0,
        "user": "",
        "is_secure": False,
    }
    return ClusterFacts(**{**usual, **known})


def of(subject: str, **known: Any) -> Finding:
    [one] = [one for one in findings(facts(**known)) if one.subject == subject]
    return one


@pytest.mark.parametrize(
    ("version", "level"),
    [
        ("3.4.23", "warning"),
        ("3.4.31", "warning"),
        ("3.4.32", "ok"),
        ("3.5.13", "warning"),
        ("3.5.14", "ok"),
        ("3.6.0-rc.1", "ok"),
        ("3.3.27", "warning"),
        ("unknown", "ok"),
    ],
)
def test_a_version_whose_revisions_could_go_back(version, level):
    assert of("server", states=[State(version=version, leader=1)]).level == level


def test_no_member_that_tells_its_version():
    assert of("server", states=[None]).level == "error"


def test_members_that_disagree():
    assert of("alarms", alarms=(Alarm(kind=CORRUPT),)).level == "error"


def test_alarms_that_may_not_be_asked_for():
    assert of("alarms", alarms=None).level == "note"


def test_a_ttl_that_outlasts_no_election():
    """The shortest lease that etcd grants shows how long an election may take to begin."""
    assert of("ttl", asked=5.0, granted=5.0).level == "warning"
    assert of("ttl", asked=10.0, granted=10.0).level == "ok"
    assert of("ttl", asked=1.5, granted=2.0).level == "note"


# -- real servers --------------------------------------------------------------------------


def test_this_server_is_old(finding):
    found = finding("server")

    assert found.level == "warning"
    assert "3.4.23" in found.message


def test_one_server_alone(finding):
    assert finding("members").level == "warning"


def test_a_cluster_that_is_whole(finding):
    cluster = shared_cluster().heal()

    found = finding("members", url=cluster.url)

    assert found.level == "ok"
    assert "3 members" in found.message


def test_a_url_that_does_not_name_all_members(finding):
    cluster = shared_cluster().heal()

    assert finding("members", url=cluster.members[0].url).level == "note"


def test_a_member_that_is_down(finding):
    cluster = shared_cluster().heal()
    cluster.followers()[0].kill()

    found = finding("members", url=cluster.url, request_timeout=10.0)

    cluster.heal()
    assert found.level == "warning"
    assert "1 of the 3" in found.message


def test_an_address_behind_which_the_members_change(finding, monkeypatch):
    """Behind a load balancer, one member cannot confirm what another has proven."""
    members = count(1)

    def by_another(_: Any, request: Any, data: bytes) -> Any:
        found = read_reply(request.answer, data)
        return found._replace(header=found.header._replace(member=next(members)))

    for kind in (Members, AsyncMembers):
        monkeypatch.setattr(kind, "_read", by_another)

    found = finding("members")

    assert found.level == "error"
    assert "load balancer" in found.message


def test_the_ttl_that_is_granted(finding):
    assert finding("ttl", ttl=10).level == "ok"
    assert "2 s are granted" in finding("ttl", ttl=1.5).message


def test_nobody_is_asked_who_they_are(finding):
    assert finding("access").level == "warning"


@pytest.fixture(scope="module")
def guarded():
    with EtcdServer(tls=certificates()) as server:
        yield server.let_in("clerk", "sesame", prefix="test-")


def test_who_has_a_user_and_a_password(finding, guarded):
    options = guarded.tls.client_options()
    url = guarded.url.replace("://", "://clerk:sesame@")

    assert finding("access", url=url, **options).level == "ok"
    assert finding("alarms", url=url, **options).level in ("ok", "note")


def test_a_server_that_is_full(finding, flavour):
    """A full server grants no new lock, but held locks are still renewed and released."""
    with EtcdServer("--quota-backend-bytes", "400000") as server:
        locks = flavour.locks(server.url, ttl=2)
        lease = locks.lock("door").acquire(timeout=10)
        server.fill()
        begun = flavour.clock.now()

        eventually(lambda: flavour.clock.now() > begun + 2.5, what="longer than the ttl")
        [alarm] = [one for one in locks.diagnose() if one.subject == "alarms"]

        assert alarm.level == "error"
        assert "NOSPACE" in alarm.message
        lease.check()
        lease.release()
        assert not server.keys("lockfast/n/")


def test_a_server_without_an_alarm(finding):
    assert shared_server().url
    assert finding("alarms").level == "ok"
