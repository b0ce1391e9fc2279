"""The client stalls: after it was granted the lock, or before it has counted the grants."""

from __future__ import annotations

from pathlib import Path

import pytest

from lockfast import AcquireTimeout, LeaseLost, StaleToken
from lockfast_challenge.processes import eventually
from lockfast_challenge.servers.redlock import url_of

TTL = 2.0


@pytest.fixture
def url(nodes):
    nodes.found(["lockfast"])
    return f"{url_of(*nodes)}?node_timeout=60"


def test_a_holder_that_slept_past_its_validity_learns_it_before_it_acts(
    flavour, url, puppet, guarded, name
):
    """A holder that was frozen past its ttl gets LeaseLost, and the resource refuses its writes."""
    sleeper = puppet(flavour.name, url, ttl=TTL, request_timeout=60)
    token = sleeper.ask("acquire", name)
    guarded.write(name, token)

    sleeper.freeze()
    successor = flavour.locks(url, request_timeout=30).lock(name).acquire(timeout=20)
    guarded.write(name, successor.token)
    sleeper.thaw()

    with pytest.raises(LeaseLost):
        sleeper.ask("check", name)
    with pytest.raises(StaleToken):
        guarded.write(name, token)


def test_one_who_slept_between_asking_and_counting_does_not_believe(
    flavour, url, nodes, puppet, name
):
    """Grants of all five nodes are worthless if the client counts them only after the ttl."""
    sleeper = puppet(flavour.name, url, ttl=TTL, request_timeout=60)
    sleeper.ask("acquire", "other")
    for one in nodes:
        one.pause()
    sleeper.tell("acquire", name, timeout=0)
    eventually(lambda: all(has_unread(one.port) for one in nodes), what="it has asked all")
    sleeper.freeze()
    for one in nodes:
        one.resume()

    successor = flavour.locks(url, request_timeout=30).lock(name).acquire(timeout=20)
    sleeper.thaw()

    with pytest.raises(AcquireTimeout):
        sleeper.answer()
    successor.check()


def has_unread(port):
    """Return whether the server on this port has received data that it has not read."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return any(
        int(row[1].rpartition(":")[2], 16) == port and int(row[4].rpartition(":")[2], 16) > 0
        for row in rows
    )
