"""Each finding of `lockfast doctor`, provoked on a real server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from kazoo.security import make_digest_acl
from servers.zookeeper import shared_ensemble, shared_server

from lockfast import BackendUnavailable, Finding
from lockfast_challenge.processes import NeverHappened, eventually
from lockfast_challenge.servers.server import free_ports
from lockfast_challenge.servers.zookeeper import SYNC_LIMIT, TICK_SECONDS, Ensemble, ZooKeeperServer

ATTEMPTS = 8


@pytest.fixture
def ensemble() -> Iterator[Ensemble]:
    """Three members; all are healthy when the test begins and after it ends."""
    one = shared_ensemble().heal()
    yield one
    one.heal()


def test_an_ensemble_that_is_well(flavour, ensemble, namespace):
    """On a healthy ensemble with credentials, the doctor finds nothing to fix."""
    url = ensemble.url.replace("://", "://clerk:pw@")
    locks = flavour.locks(url, namespace=namespace, ttl=5)
    locks.lock("door").acquire().release()

    found = locks.diagnose()

    assert {one.level for one in found} == {"ok"}


# -- how many there are ----------------------------------------------------------------------


def test_one_server_alone_tolerates_no_fault(finding):
    found = finding("ensemble")

    assert found.level == "warning"
    assert "one server" in found.message
    assert "three" in found.remedy


def test_three_members_tolerate_the_loss_of_one(finding, ensemble):
    found = finding("ensemble", ensemble.url)

    assert found.level == "ok"
    assert "3" in found.message


def test_a_member_that_is_down_is_named(finding, ensemble):
    dead = ensemble.followers()[0]
    dead.kill()

    found = finding("ensemble", ensemble.url)

    assert found.level == "warning"
    assert dead.address in found.message


def test_a_member_that_does_not_answer_is_named(finding, ensemble):
    """The member is frozen rather than dead, so its port is still open."""
    frozen = ensemble.followers()[0]
    frozen.pause()

    found = finding("ensemble", ensemble.url, request_timeout=1.0)

    assert found.level == "warning"
    assert frozen.address in found.message


def test_a_url_that_names_one_member_of_three_is_told(finding, ensemble):
    """If the URL names only one member, the program stops when that member is down."""
    found = finding("ensemble", ensemble.followers()[0].url)

    assert found.level in ("note", "warning")
    assert "URL" in found.message + found.remedy


# -- the session ------------------------------------------------------------------------------


def test_a_ttl_that_is_granted_as_asked(finding):
    assert finding("session timeout", ttl=5).level == "ok"


@pytest.fixture(scope="module")
def strict() -> Iterator[ZooKeeperServer]:
    """A server that grants only 2 to 3 s, and answers no four-letter word except `srvr`."""
    settings = {
        "minSessionTimeout": 2000,
        "maxSessionTimeout": 3000,
        "4lw.commands.whitelist": None,
    }
    with ZooKeeperServer(settings=settings) as one:
        yield one


@pytest.mark.parametrize(("asked", "granted"), [(1.0, 2.0), (30.0, 3.0)], ids=["more", "less"])
def test_a_ttl_that_is_granted_otherwise(flavour, strict, namespace, asked, granted):
    """The lease shows the ttl that the server granted; the doctor reports both values."""
    locks = flavour.locks(strict.url, namespace=namespace, ttl=asked)
    lock = locks.lock("door")
    lease = lock.acquire()

    [found] = [one for one in locks.diagnose() if one.subject == "session timeout"]

    assert lease.ttl == granted
    assert found.level == "warning"
    assert f"{asked:g}" in found.message
    assert f"{granted:g}" in found.message


def test_a_session_shorter_than_two_ticks(finding):
    """An administrator may allow sessions shorter than two ticks; a keep-alive then proves less."""
    with ZooKeeperServer(settings={"tickTime": 1000, "minSessionTimeout": 500}) as server:
        found = finding("session timeout", server.url, ttl=1)

    assert found.level == "warning"
    assert "two ticks" in found.message
    assert "ttl=2" in found.remedy


# -- the load -----------------------------------------------------------------------------------


def test_requests_that_pile_up(flavour, ensemble, namespace):
    """Without followers that agree, requests pile up at the leader."""
    found: list[Finding] = []
    # A leader resigns after a while, on a busy machine perhaps before enough requests have piled up
    # or been reported. So try several times.
    for _ in range(ATTEMPTS):
        leader = ensemble.heal().leader()
        locks = flavour.locks(leader.url, namespace=namespace, ttl=20)
        locks.lock("door").acquire(timeout=20).release()
        flavour.give_up_after(0.5)
        with suppress(NeverHappened), _piling_up(ensemble, namespace):
            found = [one for one in locks.diagnose() if one.subject == "outstanding requests"]
        if [one.level for one in found] == ["warning"]:
            break

    assert [one.level for one in found] == ["warning"]
    assert leader.address in found[0].message


@contextmanager
def _piling_up(ensemble: Ensemble, namespace: str) -> Iterator[None]:
    leader, followers = ensemble.leader(), ensemble.followers()
    with leader.client(timeout=20) as client:
        for one in followers:
            one.pause()
        try:
            for number in range(300):
                client.create_async(f"/{namespace}-{number}")
            piled, lately = "zk_outstanding_requests", SYNC_LIMIT * TICK_SECONDS
            eventually(lambda: leader.figures().get(piled, 0) >= 300, within=lately)
            yield
        finally:
            for one in followers:
                one.resume()


def test_a_server_that_keeps_up(finding):
    assert finding("outstanding requests").level == "ok"


# -- access -------------------------------------------------------------------------------------


def test_nodes_that_everybody_may_change(flavour, namespace, finding):
    flavour.locks(shared_server().url, namespace=namespace).lock("door").acquire().release()

    found = finding("acl")

    assert found.level == "warning"
    assert f"/{namespace}" in found.message


def test_nodes_that_only_their_owner_may_change(flavour, namespace, finding):
    url = f"zookeeper://clerk:pw@{shared_server().address}"
    flavour.locks(url, namespace=namespace).lock("door").acquire().release()

    assert finding("acl", url).level == "ok"


def test_a_namespace_made_by_hand_for_one_user(namespace, finding):
    url = f"zookeeper://clerk:pw@{shared_server().address}"
    with shared_server().client() as client:
        client.create(f"/{namespace}", acl=[make_digest_acl("clerk", "pw", all=True)])

    assert finding("acl", url).level == "ok"


# -- four-letter words --------------------------------------------------------------------------


def test_words_that_the_server_does_not_answer(finding, strict):
    """By default a server answers only `srvr`, so missing facts are a note, not an error."""
    found = finding("four-letter words", strict.url)

    assert found.level == "note"
    assert "4lw.commands.whitelist" in found.remedy


def test_a_server_that_is_not_there_cannot_be_examined(flavour, namespace):
    [port] = free_ports(1)
    locks = flavour.locks(f"zookeeper://127.0.0.1:{port}", namespace=namespace, request_timeout=0.3)

    with pytest.raises(BackendUnavailable, match=str(port)):
        locks.diagnose()
