"""Forking while holding: the child holds nothing, the parent loses nothing."""

from __future__ import annotations

import pytest

from lockfast import LeaseLost
from lockfast.backends.redis.address import address_of_url
from lockfast.backends.redis.connection_threads import RedisTransport
from lockfast.backends.redis.resp import packed
from lockfast.runtime.clock import Clock


@pytest.fixture
def parent(flavour, server, puppet):
    return puppet(flavour.name, server.url, ttl=6)


def test_a_forked_child_holds_nothing(parent, line):
    token = parent.ask("acquire", "door")

    child = parent.fork()
    with pytest.raises(LeaseLost) as told:
        child.ask("check", "door")
    with pytest.raises(LeaseLost):
        child.ask("release", "door")

    assert told.value.reason == "forked"
    parent.ask("check", "door")
    assert line("door") == ([token], 0)


def test_the_parent_goes_on_over_the_connection_that_its_child_inherited(parent, line, eventually):
    """Children open their own connections, so they take no reply from their parent's connection."""
    token = parent.ask("acquire", "door")
    children = [parent.fork(), parent.fork()]
    for number, child in enumerate(children):
        child.ask("acquire", f"window {number}", timeout=20)

    children[0].ask("close")
    children[1].kill()
    before = parent.ask("renewals")
    eventually(lambda: parent.ask("renewals") >= before + 2)

    parent.ask("check", "door")
    assert line("door") == ([token], 0)
    assert line("window 0") == ([], 0)
    parent.ask("release", "door")
    assert line("door") == ([], 0)


def test_a_child_cannot_enter_what_its_parent_holds(parent, line, eventually):
    """The child waits like any other client, and is served after the parent's release."""
    token = parent.ask("acquire", "door")
    child = parent.fork()
    child.ask("let_many_wait", "door", 1)
    eventually(lambda: line("door") == ([token], 1))

    parent.ask("release", "door")

    eventually(lambda: line("door")[1] == 0)
    [[childs], _] = line("door")
    assert childs > token


def test_a_child_closes_its_copy_of_its_parents_subscription(server, eventually):
    """Otherwise the server would send it messages until the child ends."""
    options = {"client_name": "inherited"}
    address = address_of_url(server.url, where=server.url, options=options)
    transport = RedisTransport(address.server, clock=Clock())
    subscription = transport.subscribe(b"inbox", print, deadline=Clock().now() + 30)
    with server.client() as client:

        def names() -> list[str]:
            return [one["name"] for one in client.client_list()]

        assert "inherited" in names()

        # In this process there is no parent, so nothing else keeps the connection open.
        subscription.abandon_in_child()

        eventually(lambda: "inherited" not in names())


def test_a_child_that_leaves_its_connections_does_not_end_its_parents_subscription(server):
    """For example because the server refuses a write; the sockets are the parent's too."""
    address = address_of_url(server.url, where=server.url, options={})
    transport = RedisTransport(address.server, clock=Clock())
    heard: list[bytes] = []
    subscription = transport.subscribe(b"inbox", heard.append, deadline=Clock().now() + 30)

    transport.after_fork_in_child()
    transport.leave()
    transport.ask(packed(b"PUBLISH", b"inbox", b"hello"), deadline=Clock().now() + 30)
    while not heard:
        assert subscription.listen(until=Clock().now() + 0.1)

    assert heard == [b"hello"]
    subscription.close()
    transport.close()
