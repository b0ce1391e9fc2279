"""The watch stream goes to the member that gets the requests, and ends if that member is gone."""

from __future__ import annotations

from typing import Any

import pytest
from backends.etcd.impostors import GREETING, at_each_call
from backends.etcd.transports import OpenWire, SessionWatches, Watcher
from servers.etcd import shared_cluster

from lockfast import BackendUnavailable
from lockfast.backends.etcd import requests
from lockfast.backends.etcd._sync import watcher as sync_watcher
from lockfast.backends.etcd.http2 import frames, grpc
from lockfast.backends.etcd.http2.frames import frame
from lockfast_challenge.processes import eventually
from lockfast_challenge.servers.etcd import EtcdServer
from lockfast_challenge.servers.proxy import Proxy

STREAMS = "etcd_debugging_mvcc_watch_stream_total"
"""The metric that counts the watch streams that a server has open."""


@pytest.fixture
def cluster(outliving):
    one = shared_cluster().heal()
    yield one
    one.heal()


@pytest.fixture(scope="module")
def own_server():
    """A server that only this file uses, because of its metrics; it admits only the user clerk."""
    with EtcdServer() as server:
        yield server.let_in("clerk", "sesame", prefix="ours/")


@pytest.fixture
def clerk(wire_to, own_server) -> OpenWire:
    return wire_to(own_server.url.replace("://", "://clerk:sesame@"))


def begun(transport: OpenWire, key: bytes) -> Watcher:
    """Return a stream on which a watch has begun."""
    stream = transport.watch()
    stream.send(requests.watch(1, key, since=0, deletions=True))
    stream.until(lambda heard: heard)
    return stream


# -- where it goes -------------------------------------------------------------------------


def test_a_watch_leaves_a_member_together_with_the_requests(flavour, wire_to, cluster, key):
    """A member that does not answer requests reports no changes of keys either."""
    transport = wire_to(cluster.url)
    stream = begun(transport, key)
    left = stream.heard[0].header.member

    flavour.call(transport.transport.pass_by)

    eventually(lambda: not stream.listens(), what="the stream is given up")
    stream.close()
    again = begun(transport, key)
    assert again.heard[0].header.member != left
    again.close()


def test_a_watch_stays_where_there_is_no_other_member(flavour, wire_to, server, key):
    transport = wire_to(server.url)
    stream = begun(transport, key)

    flavour.call(transport.transport.pass_by)

    assert stream.listens()
    stream.close()


def test_a_watch_ends_when_its_member_is_hung_up_on(flavour, wire_to, server, key):
    """The watch ends even without another member, because the only one answers on no connection."""
    transport = wire_to(server.url)
    stream = begun(transport, key)

    flavour.call(transport.transport.hang_up)

    eventually(lambda: not stream.listens(), what="the stream is given up")
    stream.close()


def test_a_watch_leaves_a_member_that_has_lost_its_leader(wire_to, cluster, key):
    """A member without a leader sees no changes, and reports that only because we ask it to."""
    transport = wire_to(cluster.members[0].url)
    stream = begun(transport, key)

    for one in cluster.members[1:]:
        one.pause()

    eventually(lambda: not stream.listens(), what="the member says so")
    assert "no leader" in stream.stream.end.text
    stream.close()


@pytest.mark.parametrize("is_told", [False, True])
def test_a_way_that_is_cut_is_noticed_by_who_only_listens(
    wire_to, server, key, monkeypatch, is_told
):
    """A listener sends no requests whose replies could be late, so only a ping notices the cut."""
    with Proxy(server.port, scheme="etcd") as proxy:
        transport = wire_to(proxy.url)
        stream = begun(transport, key)

        proxy.cut(told=is_told)
        monkeypatch.setattr(grpc, "PING_SECONDS", 0.1)
        monkeypatch.setattr(grpc, "PING_TIMEOUT_SECONDS", 0.3)

        eventually(lambda: not stream.listens(), what="it is taken for cut")
        stream.close()
        proxy.mend()


def test_a_member_that_is_there_is_not_taken_for_gone(wire_to, server, key, monkeypatch):
    """A member that answers a ping counts as alive."""
    transport = wire_to(server.url)
    stream = begun(transport, key)
    monkeypatch.setattr(grpc, "PING_SECONDS", 0.0)
    monkeypatch.setattr(grpc, "PING_TIMEOUT_SECONDS", 60.0)
    http2 = stream.stream._connection.http2
    answers = http2.answers
    stream.listens()  # sends one ping
    monkeypatch.setattr(grpc, "PING_SECONDS", 60.0)

    eventually(lambda: stream.listens() and http2.answers > answers, what="it has answered")
    monkeypatch.setattr(grpc, "PING_TIMEOUT_SECONDS", 0.0)
    assert stream.listens()
    stream.close()


@pytest.mark.parametrize("last", [0, frames.LAST_STREAM])
def test_a_member_that_is_about_to_go_is_left_by_the_watch_too(wire_to, talker, key, last):
    """After GOAWAY, calls may finish, but a watch never finishes by itself, so we end it."""
    leave = frame(frames.GOAWAY, 0, 0, last.to_bytes(4, "big") + bytes(4))
    transport = wire_to(talker(greeting=GREETING, answer=at_each_call(lambda _: leave)).url)

    stream = transport.watch()

    eventually(lambda: not stream.listens(), what="the stream is given up")
    stream.close()


# -- in a session --------------------------------------------------------------------------


def test_a_refused_watch_leaves_no_stream(clerk, own_server):
    watches = SessionWatches(clerk)
    told: list[Any] = []

    watches.watch(b"theirs", told.append)

    eventually(lambda: told == [None], what="it is told that nobody knows")
    eventually(lambda: own_server.figure(STREAMS) == 0, what="no stream is left")
    watches.close()


def test_a_watch_after_the_token_has_run_out(clerk, own_server):
    """A stream authenticates only when it is opened, so a new stream is opened with a new token."""
    watches = SessionWatches(clerk)
    watches.watch(b"ours/a", lambda _: None)
    stale = clerk.transport._token

    def is_watched() -> bool:
        told: list[Any] = []
        watches.watch(b"ours/%d" % watches.lost, told.append)
        own_server.put(f"ours/{watches.lost}")
        eventually(lambda: told, what="it is told of something")
        return told[0] is not None and clerk.transport._token != stale

    own_server.ask("auth/user/changepw", name="clerk", password="sesame")  # ends the user's tokens
    eventually(is_watched, what="a watch tells what happened")
    watches.close()


@pytest.mark.parametrize("flavour", ["sync"], indirect=True)
def test_no_thread_to_read_it(clerk, own_server, monkeypatch):
    """A stream without a thread to read it would report nothing, so no stream is opened."""
    watches = SessionWatches(clerk)

    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(sync_watcher.runtime, "spawn", refuse)
        with pytest.raises(BackendUnavailable, match="thread"):
            watches.watch(b"ours/a", lambda _: None)
    eventually(lambda: own_server.figure(STREAMS) == 0, what="no stream is left")
    told: list[Any] = []
    watches.watch(b"ours/b", told.append)
    own_server.put("ours/b")

    eventually(lambda: told, what="the next one is told")
    watches.close()


# -- closing -------------------------------------------------------------------------------


def test_nothing_is_asked_or_watched_after_closing(wire_to, server, key):
    """If a closed transport connected again, nothing would ever close the new connection."""
    with Proxy(server.port, scheme="etcd") as proxy:
        transport = wire_to(proxy.url)
        transport.ask(requests.range_(key))
        transport.close()
        eventually(lambda: proxy.connections == 0, what="all connections are closed")

        with pytest.raises(BackendUnavailable, match="closed"):
            transport.ask(requests.range_(key))
        with pytest.raises(BackendUnavailable, match="closed"):
            transport.watch()

        assert proxy.connections == 0
