"""Nodes that authenticate clients, each in its own way: with TLS, a password or a user."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from lockfast import BackendUnavailable
from lockfast.backends.redis import acl
from lockfast.backends.redlock.diagnostics import NEEDED_COMMANDS
from lockfast_challenge.servers.certificates import certificates
from lockfast_challenge.servers.redis import RedisServer
from lockfast_challenge.servers.redlock import RedlockNodes, url_of

PAGE = Path(__file__).parents[3] / "docs" / "backends" / "redlock.md"
PASSWORD, CLERKS = "a-password", ("first-clerks", "second-clerks")


@pytest.fixture(scope="module")
def fleet() -> Iterator[RedlockNodes]:
    """A node with users and no TLS, a node with TLS and a password, a node with TLS and users."""
    nodes = RedlockNodes(0)
    tls = certificates()
    nodes.servers = [RedisServer(), RedisServer(tls=tls, password=PASSWORD), RedisServer(tls=tls)]
    with nodes:
        yield nodes


@pytest.fixture
def nodes(fleet, namespace) -> RedlockNodes:
    fleet.found([namespace])
    rules = acl.smallest(namespace, NEEDED_COMMANDS).split()
    for one, password in zip((fleet[0], fleet[2]), CLERKS, strict=True):
        with one.client() as admin:
            admin.execute_command("ACL", "SETUSER", "clerk", "reset", "on", f">{password}", *rules)
    return fleet


@pytest.fixture(params=["redlock", "redlocks"])
def opened(request, flavour, nodes, namespace):
    """Return a function that opens a client; per-node options override the scheme's default."""
    is_tls = request.param == "redlocks"

    def open_one(*passwords: str):
        first, second, third = passwords or (CLERKS[0], PASSWORD, CLERKS[1])
        shown = certificates().client_options()
        each = [
            {"username": "clerk", "password": first, **({"tls": False} if is_tls else {})},
            {"password": second, **shown, **({} if is_tls else {"tls": True})},
            {"username": "clerk", "password": third, **shown, **({} if is_tls else {"tls": True})},
        ]
        url = url_of(*nodes.servers).replace("redlock", request.param)
        options = {"namespace": namespace, "node_timeout": 5.0, "request_timeout": 20.0}
        return flavour.locks(url, nodes=each, **options)

    return open_one


def test_everything_works_by_the_smallest_acl_of_each_node(opened, flavour, name):
    """Every verb works for users with no other permissions."""
    locks, other = opened(), opened()

    lease = locks.lock(name, min_hold=0.01).acquire(timeout=20)
    waiter = flavour.start(other.lock(name).acquire, timeout=40)
    lease.renew()
    lease.release()
    following = waiter.result(40)

    assert following.token > lease.token
    assert name in {one.name for one in locks.survey()}
    assert [one.token for one in locks.break_(name)] == [following.token]
    assert {one.level for one in locks.diagnose() if one.subject == "permissions"} == {"ok", "note"}


def test_a_node_that_does_not_let_us_in_is_one_that_is_away(opened, name):
    wrong = opened(CLERKS[0], "not-the-password", CLERKS[1])

    assert wrong.lock(name).acquire(timeout=20).token > 0


def test_nodes_that_do_not_let_us_in_are_named_without_a_password(opened, nodes, name):
    wrong = opened("not-the-password", PASSWORD, "not-the-password")

    with pytest.raises(BackendUnavailable) as caught:
        wrong.lock(name).acquire(timeout=20)

    assert nodes[0].address in str(caught.value)
    assert nodes[2].address in str(caught.value)
    assert "not-the-password" not in str(caught.value)


def test_the_rules_are_those_on_the_page():
    text = re.sub(r"\\\n\s*", "", PAGE.read_text(encoding="utf-8"))

    assert acl.smallest("lockfast", NEEDED_COMMANDS) in text
