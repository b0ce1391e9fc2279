"""Names with two thousand million claims, at which the server's sequence comes to its end."""

from __future__ import annotations

import pytest
from backends.zookeeper.worn_names import server_with

from lockfast.backends.zookeeper import nodes
from lockfast_challenge.processes import eventually
from lockfast_challenge.servers.zookeeper import ZooKeeperServer

NAME = "worn"
CLIENTS = 4
TURNS = 12


@pytest.fixture
def server_at(outliving):
    """Return a function that starts a server whose next claim on the name gets this sequence."""

    def start(sequence: int) -> ZooKeeperServer:
        return outliving.enter_context(server_with(NAME, sequence=sequence))

    return start


def _take_turns(flavour, url: str) -> list[tuple[int, list[bool]]]:
    """Let several clients contend; return each grant's token, and who else was inside then."""
    course: list[tuple[int, list[bool]]] = []
    inside: list[int] = []

    def play(locks) -> None:
        for _ in range(TURNS):
            lease = locks.lock(NAME).acquire(timeout=30)
            course.append((lease.token, [one != lease.token for one in inside]))
            inside.append(lease.token)
            lease.check()
            inside.remove(lease.token)
            lease.release()

    players = [flavour.start(play, flavour.locks(url, ttl=20)) for _ in range(CLIENTS)]
    for one in players:
        one.result(40)
    return course


def _sequences(server: ZooKeeperServer) -> list[int]:
    with server.client() as client:
        return [one.sequence for one in nodes.in_line(client.get_children(f"/lockfast/{NAME}"))]


@pytest.mark.parametrize(
    "sequence", [nodes.SEQUENCE_LATE - 5, 2**31 - 5], ids=["late", "at the end"]
)
def test_a_worn_name_is_made_anew_under_those_who_want_it(flavour, server_at, sequence):
    """A worn name gets a new node while in use: one holder at a time, and growing tokens."""
    server = server_at(sequence)

    course = _take_turns(flavour, server.url)

    assert len(course) == CLIENTS * TURNS
    assert not any(any(others) for _, others in course)
    tokens = [token for token, _ in course]
    assert tokens == sorted(set(tokens))
    lease = flavour.locks(server.url).lock(NAME).acquire(timeout=20)
    assert max(_sequences(server)) < 1000
    assert lease.token > tokens[-1]


def test_numbers_that_repeat_do_not_change_who_came_first(flavour, server_at, monkeypatch):
    """Where the server repeats 2147483647, the order of the transactions decides who is next."""
    monkeypatch.setattr(nodes, "SEQUENCE_LATE", 2**31)
    server = server_at(2**31 - 2)
    opened = [flavour.locks(server.url, ttl=20) for _ in range(6)]
    lease = opened[0].lock(NAME).acquire()
    waiting = []
    for number, one in enumerate(opened[1:], 1):
        waiting.append(flavour.start(one.lock(NAME).acquire, timeout=30))
        eventually(lambda n=number: len(opened[0].inspect(NAME).line) == n, what="it waits")
    assert len(set(_sequences(server))) < len(opened)

    tokens = [lease.token]
    for number, one in enumerate(waiting):
        assert not any(each.done() for each in waiting[number:])
        lease.release()
        lease = one.result(10)
        tokens.append(lease.token)

    assert tokens == sorted(set(tokens))
