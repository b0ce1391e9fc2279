"""Processes that are frozen or forked while they hold."""

from __future__ import annotations

import pytest

from lockfast import LeaseLost
from lockfast_challenge.servers.memcached import REPLY_TIMEOUT_SECONDS


@pytest.fixture
def holders(flavour, server):
    """Return a function that lists the processes that hold a name."""
    watcher = flavour.locks(server.url)
    return lambda name: [one.owner.pid for one in watcher.inspect(name).holders]


def test_a_frozen_holder_is_told_and_takes_nothing_from_its_successor(
    flavour, server, puppet, holders
):
    frozen = puppet(flavour.name, server.url, ttl=0.5)
    frozen.ask("acquire", "door")
    frozen.freeze()
    successor = flavour.locks(server.url).lock("door").acquire(timeout=REPLY_TIMEOUT_SECONDS)
    [has_it] = holders("door")
    frozen.thaw()

    with pytest.raises(LeaseLost) as told:
        frozen.ask("check", "door")
    with pytest.raises(LeaseLost):
        frozen.ask("release", "door")

    assert told.value.reason == "expired"
    assert holders("door") == [has_it]
    successor.release()


def test_a_forked_child_holds_nothing_and_its_parent_goes_on(
    flavour, server, puppet, holders, eventually
):
    """Children open connections of their own, so they take no replies from their parent."""
    parent = puppet(flavour.name, server.url, ttl=6.0)
    parent.ask("acquire", "door")
    has_it = holders("door")
    children = [parent.fork(), parent.fork()]
    with pytest.raises(LeaseLost) as told:
        children[0].ask("check", "door")
    with pytest.raises(LeaseLost):
        children[0].ask("release", "door")
    for number, child in enumerate(children):
        child.ask("acquire", f"window {number}", timeout=REPLY_TIMEOUT_SECONDS)

    children[0].ask("close")
    children[1].kill()
    before = parent.ask("renewals")
    eventually(lambda: parent.ask("renewals") >= before + 2)

    assert told.value.reason == "forked"
    assert holders("door") == has_it
    assert holders("window 0") == []
    parent.ask("check", "door")
    parent.ask("release", "door")
    assert holders("door") == []
