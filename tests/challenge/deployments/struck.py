"""What every deployment that we start must do: serve, suffer faults, and serve again."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import ClassVar

import pytest

from lockfast import BackendUnavailable, Locks, NotAcquired, OutcomeUnknown
from lockfast_challenge.deployments.catalog import own_servers
from lockfast_challenge.deployments.clusters import EnsembleDeployment
from lockfast_challenge.deployments.redlock import Redlock
from lockfast_challenge.deployments.single_server import SingleServerDeployment
from lockfast_challenge.faults.fault import Deployment, Draw, Fault
from lockfast_challenge.processes import eventually, state_of
from lockfast_challenge.servers.redis import RedisServer, ShiftedRedis
from lockfast_challenge.servers.server import Server

TTL = 2.0
"""Short, because new redlock nodes do not count for this long; expiry is not under test."""

ANY = Draw(length=0.0, strength=0.1, anybody=1)
"""Makes a fault choose a follower, or set a clock back."""

OTHER = Draw(length=0.0, strength=0.9, anybody=0)
"""Makes a fault choose the leader, or set a clock ahead."""

PATIENT = 30.0
"""Request timeout where it is not under test, in seconds."""


class Struck:
    """The tests of one store; `kinds` are its faults, `not_made` the faults that cannot be made."""

    store: ClassVar[str]
    kinds: ClassVar[frozenset[str]]
    not_made: ClassVar[frozenset[str]] = frozenset()

    @pytest.fixture(scope="class")
    @classmethod
    def deployment(cls) -> Iterator[Deployment]:
        with own_servers(cls.store, ttl=TTL) as one:
            yield one

    def test_it_says_which_faults_can_be_made_and_what_the_others_lack(self, deployment):
        found = {one.kind: one for one in deployment.faults()}

        assert set(found) == self.kinds | self.not_made
        assert {kind for kind, one in found.items() if one.lacks} == self.not_made
        for one in found.values():
            assert one.is_destructive
            assert one.role is None

    def test_each_client_comes_by_ways_of_its_own(self, deployment):
        proxies_of = [deployment.proxies_of(client) for client in (0, 1)]
        with Locks(deployment.url_for(0), ttl=TTL, request_timeout=PATIENT) as locks:
            is_served(locks)

            assert any(one.connections for one in proxies_of[0])
            assert not any(one.connections for one in proxies_of[1])

    @pytest.mark.parametrize("draw", [ANY, OTHER], ids=["one", "other"])
    def test_what_is_to_be_struck_is_struck(self, deployment, draw):
        """A fault with a visible effect has struck a server, and its end undoes the effect."""
        for fault in deployment.faults():
            shows = EFFECTS.get(fault.kind)
            if shows is not None and not fault.lacks:
                try:
                    fault.begin(draw, None)
                    assert shows(servers_of(deployment)), fault.kind
                finally:
                    fault.end()
                assert not shows(servers_of(deployment)), fault.kind

    def test_a_client_is_served_again_after_each_fault(self, deployment):
        """A client from before the fault and a client that connects afterwards are both served."""
        with Locks(deployment.url_for(2), ttl=TTL, request_timeout=PATIENT) as old:
            is_served(old)
            for fault in deployment.faults():
                if not fault.lacks:
                    strike(fault)
                    is_served(old)

            with Locks(deployment.url_for(3), ttl=TTL, request_timeout=PATIENT) as new:
                is_served(new)


def servers_of(deployment: Deployment) -> list[Server]:
    """Return all servers that faults may strike."""
    if isinstance(deployment, SingleServerDeployment):
        return [deployment.server]
    if isinstance(deployment, EnsembleDeployment):
        return deployment.group.members
    return [
        *(deployment._servers if isinstance(deployment, Redlock) else deployment._group.servers)
    ]


def one_stands_still(servers: Sequence[Server]) -> bool:
    return any(one.is_running and state_of(one.process.pid) == "T" for one in servers)


def one_is_gone(servers: Sequence[Server]) -> bool:
    return not all(one.is_running for one in servers)


def one_clock_is_wrong(servers: Sequence[Server]) -> bool:
    return any(abs(ahead(one)) > TTL for one in servers if isinstance(one, ShiftedRedis))


def ahead(server: RedisServer) -> float:
    """Return how far the server's clock is ahead of ours."""
    with server.client() as client:
        seconds, micros = client.time()
    return seconds + micros / 1e6 - time.time()


EFFECTS = {
    "server-paused": one_stands_still,
    "node-paused": one_stands_still,
    "server-killed": one_is_gone,
    "node-killed": one_is_gone,
    "server-emptied": one_is_gone,
}
"""How to see on the servers that a fault is active; faults not listed are tested elsewhere."""


def strike(fault: Fault) -> None:
    """Begin a fault, and end it."""
    try:
        assert fault.begin(ANY, None)
    finally:
        fault.end()


def is_served(locks: Locks) -> None:
    """Return once the client could acquire a lock; the client may have to reconnect first."""
    lock = locks.lock("door")

    def is_had() -> bool:
        lock.acquire(timeout=PATIENT).release()
        return True

    eventually(
        is_had, what="a client is served", despite=(BackendUnavailable, OutcomeUnknown, NotAcquired)
    )
