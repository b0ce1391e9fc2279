"""The stream of watches: it goes where the requests go, and ends when nobody is there."""

from __future__ import annotations

from typing import Any

import pytest
from backends.etcd.impostors import GREETING, at_each_call
from backends.etcd.wires import OpenWire, SessionWatches, Watcher
from servers.etcd import shared_cluster

from lockfast import BackendUnavailable
from lockfast.backends.etcd import requests
from lockfast.backends.etcd._sync import watcher as sync_watcher
from lockfast.backends.etcd.http2 import frames
from lockfast.backends.etcd.http2.frames import frame
from lockfast.backends.etcd.watching import pulse
from lockfast.challenge.eventually import eventually
from lockfast.challenge.servers.etcd import EtcdServer
from lockfast.challenge.servers.proxy import Proxy

STREAMS = "etcd_debugging_mvcc_watch_stream_total"
"""How many streams of watches a server has open."""


@pytest.fixture
def cluster(outliving):
    one = shared_cluster().heal()
    yield one
    one.heal()


@pytest.fixture(scope="module")
def own_server():
    """One whose figures are this file's own, and that lets nobody in but a clerk."""
    with EtcdServer() as server:
        yield server.let_in("clerk", "sesame", prefix="ours/")


@pytest.fixture
def clerk(wire_to, own_server) -> OpenWire:
    return wire_to(own_server.url.replace("://", "://clerk:sesame@"))


def begun(wire: OpenWire, key: bytes) -> Watcher:
    """Return a stream with a watch that was begun."""
    stream = wire.watch()
    stream.say(requests.watch(1, key, since=0, deletions=True))
    stream.until(lambda heard: heard)
    return stream


# -- where it goes -------------------------------------------------------------------------


def test_a_watch_leaves_a_member_together_with_the_requests(flavour, wire_to, cluster, key):
    """Who does not answer requests tells nothing of keys either."""
    wire = wire_to(cluster.url)
    stream = begun(wire, key)
    left = stream.heard[0].header.member

    flavour.call(wire.wire.pass_by)

    eventually(lambda: not stream.listens(), what="the stream is given up")
    stream.close()
    again = begun(wire, key)
    assert again.heard[0].header.member != left
    again.close()


def test_a_watch_stays_where_there_is_no_other_member(flavour, wire_to, server, key):
    wire = wire_to(server.url)
    stream = begun(wire, key)

    flavour.call(wire.wire.pass_by)

    assert stream.listens()
    stream.close()


def test_a_watch_ends_when_its_member_is_hung_up_on(flavour, wire_to, server, key):
    """Also where there is no other: it does not answer on any connection."""
    wire = wire_to(server.url)
    stream = begun(wire, key)

    flavour.call(wire.wire.hang_up)

    eventually(lambda: not stream.listens(), what="the stream is given up")
    stream.close()


def test_a_watch_leaves_a_member_that_has_lost_its_leader(wire_to, cluster, key):
    """It hears of nothing, and would go on in silence if it were not asked to say so."""
    wire = wire_to(cluster.members[0].url)
    stream = begun(wire, key)

    for one in cluster.members[1:]:
        one.pause()

    eventually(lambda: not stream.listens(), what="the member says so")
    assert "no leader" in stream.stream.end.text
    stream.close()


@pytest.mark.parametrize("is_told", [False, True])
def test_a_way_that_is_cut_is_noticed_by_who_only_listens(
    wire_to, server, key, monkeypatch, is_told
):
    """Also without a word: nobody asks for anything, so nothing would ever be late."""
    with Proxy(server.port, scheme="etcd") as proxy:
        wire = wire_to(proxy.url)
        stream = begun(wire, key)

        proxy.cut(told=is_told)
        monkeypatch.setattr(pulse, "PING_EVERY", 0.1)
        monkeypatch.setattr(pulse, "PATIENCE", 0.3)

        eventually(lambda: not stream.listens(), what="it is taken for cut")
        stream.close()
        proxy.mend()


def test_a_member_that_is_there_is_not_taken_for_gone(wire_to, server, key, monkeypatch):
    """It answers when it is asked whether it is."""
    wire = wire_to(server.url)
    stream = begun(wire, key)
    monkeypatch.setattr(pulse, "PING_EVERY", 0.0)
    stream.listens()  # asks once
    monkeypatch.setattr(pulse, "PING_EVERY", 60.0)
    monkeypatch.setattr(pulse, "PATIENCE", 60.0)

    eventually(lambda: not stream.stream.awaits_a_sign, what="it has answered")
    assert stream.listens()
    stream.close()


@pytest.mark.parametrize("last", [0, frames.LAST_STREAM])
def test_a_member_that_is_about_to_go_is_left_by_the_watch_too(wire_to, talker, key, last):
    """GOAWAY lets what was begun end by itself, and a watch never does."""
    leave = frame(frames.GOAWAY, 0, 0, last.to_bytes(4, "big") + bytes(4))
    wire = wire_to(talker(greeting=GREETING, answer=at_each_call(lambda _: leave)).url)

    stream = wire.watch()

    eventually(lambda: not stream.listens(), what="the stream is given up")
    stream.close()


# -- what a session makes of it ------------------------------------------------------------


def test_a_refused_watch_leaves_no_stream(clerk, own_server):
    watches = SessionWatches(clerk)
    told: list[Any] = []

    watches.watch(b"theirs", told.append)

    eventually(lambda: told == [None], what="it is told that nobody knows")
    eventually(lambda: own_server.figure(STREAMS) == 0, what="no stream is left")
    watches.close()


def test_a_watch_after_the_token_has_run_out(clerk, own_server):
    """The stream says who we are when it is opened: another one is, by another token."""
    watches = SessionWatches(clerk)
    watches.watch(b"ours/a", lambda _: None)
    stale = clerk.wire._token

    def is_watched() -> bool:
        told: list[Any] = []
        watches.watch(b"ours/%d" % watches.lost, told.append)
        own_server.put(f"ours/{watches.lost}")
        eventually(lambda: told, what="it is told of something")
        return told[0] is not None and clerk.wire._token != stale

    own_server.ask("auth/user/changepw", name="clerk", password="sesame")  # ends its tokens
    eventually(is_watched, what="a watch tells what happened")
    watches.close()


@pytest.mark.parametrize("flavour", ["sync"], indirect=True)
def test_no_thread_to_read_it(clerk, own_server, monkeypatch):
    """Then there is no stream either: one that nobody reads would tell nothing for ever."""
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
    """It would connect again, and nobody would ever close that."""
    with Proxy(server.port, scheme="etcd") as proxy:
        wire = wire_to(proxy.url)
        wire.ask(requests.range_(key))
        wire.close()
        eventually(lambda: proxy.connections == 0, what="all connections are closed")

        with pytest.raises(BackendUnavailable, match="closed"):
            wire.ask(requests.range_(key))
        with pytest.raises(BackendUnavailable, match="closed"):
            wire.watch()

        assert proxy.connections == 0
