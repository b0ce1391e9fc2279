"""The server's clock jumps, forwards and backwards, while locks are held."""

from __future__ import annotations

import pytest
from clock_jumps import HOUR, ClockJumps

from lockfast_challenge.servers.redis import ShiftedRedis


@pytest.fixture
def server():
    with ShiftedRedis() as one:
        yield one


@pytest.fixture
def url(server):
    return server.url


@pytest.fixture
def server_time(server):
    def ask() -> float:
        with server.client() as client:
            seconds, _ = client.time()
            return seconds

    return ask


class TestClockJumps(ClockJumps):
    """The clock tests that all stores with a clock on the server share."""


def test_a_clock_put_back_does_not_keep_a_dead_holders_lock(
    flavour, server, url, puppet, eventually
):
    """After the clock goes back an hour, a dead holder's lock still ends with its ttl."""
    holder = puppet(flavour.name, url, ttl=1.2)
    token = holder.ask("acquire", "door")
    locks = flavour.locks(url)
    waiter = flavour.start(locks.lock("door").acquire, timeout=20)
    eventually(lambda: locks.inspect("door").line)
    holder.kill()

    server.shift_clock(-HOUR)

    assert waiter.result(20).token > token
