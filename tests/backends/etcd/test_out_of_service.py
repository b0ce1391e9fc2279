"""If a member answers but cannot serve requests, another member is asked."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from backends.etcd.impostors import GREETING, at_each_call, refusal

from lockfast.backends.etcd import requests
from lockfast.backends.etcd.http2.grpc import GrpcError
from lockfast_challenge.processes import eventually
from lockfast_challenge.servers.etcd import EtcdServer

WORDS = ("etcdserver: no leader", "etcdserver: rpc not supported for learner")


@pytest.fixture(params=WORDS)
def idler(request, talker):
    """A member that refuses every request."""
    return talker(
        greeting=GREETING, answer=at_each_call(lambda stream: refusal(stream, request.param))
    )


def test_another_member_is_asked_at_once_and_from_then_on(wire_to, idler, server, key):
    transport = wire_to(f"{idler.url},{server.address}")

    assert transport.ask(requests.put(key, b"1")).header.member == server.id
    assert transport.transport._at == 1


def test_a_watch_that_is_refused_goes_to_another_member(wire_to, idler, server, key):
    transport = wire_to(f"{idler.url},{server.address}")
    stream = transport.watch()
    eventually(lambda: not stream.listens(), what="the stream is ended")
    transport.transport.stream_ended(stream.stream)
    stream.close()

    again = transport.watch()
    again.send(requests.watch(1, key, since=0, deletions=True))

    assert again.until(lambda heard: heard)[0].header.member == server.id
    again.close()


def test_where_there_is_no_other_its_words_are_told(wire_to, idler, key):
    assert isinstance(wire_to(idler.url).ask(requests.put(key, b"1")), GrpcError)


# -- real servers --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def learner() -> Iterator[EtcdServer]:
    """A member that was just added as a learner, and serves no requests until it is promoted."""
    with EtcdServer() as voter:
        one = EtcdServer("--initial-cluster-state", "existing", name="n1")
        one.choose_ports()
        peers = {each.name: f"http://127.0.0.1:{each.peer_port}" for each in (voter, one)}
        voter.ask("cluster/member/add", peerURLs=[peers["n1"]], isLearner=True)
        one.cluster = ",".join(f"{name}={peer}" for name, peer in peers.items())
        with one:
            one.voter = voter
            yield one


def test_a_learner_is_left(wire_to, learner, key):
    transport = wire_to(f"{learner.url},{learner.voter.address}")

    assert transport.ask(requests.put(key, b"1")).header.member == learner.voter.id


def test_a_lock_is_held_and_waited_for_beside_a_learner(flavour, learner, name):
    """The watch of a waiter also goes to a member that can serve it."""
    locks = flavour.locks(f"{learner.url},{learner.voter.address}", ttl=5)
    lease = locks.lock(name).acquire(timeout=20)
    other = flavour.locks(f"{learner.url},{learner.voter.address}", ttl=5)
    waiting = flavour.start(other.lock(name).acquire, timeout=20)
    eventually(lambda: locks.inspect(name).line, what="it waits")

    lease.release()

    assert waiting.result(30).token > lease.token
