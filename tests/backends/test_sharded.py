"""A stock in shards, on stores that return the crowds of all shards in one call."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import pytest
import sharded_stock
from both_flavours import number_waiting
from puppets import environment
from servers import redis as redis_servers
from stock import LONG

from lockfast import Crowd
from lockfast_challenge.processes import eventually

PROCESSES, TIMES, SHARDS = 8, 40, 4


@pytest.fixture(params=["redis", "sqlite"])
def url(request, tmp_path) -> str:
    if request.param == "sqlite":
        return f"sqlite://{tmp_path}/locks.db"
    return redis_servers.shared_server().url


@pytest.mark.timeout(LONG)  # on a busy machine the processes are scheduled late
def test_no_sale_of_many_processes_is_lost(url, tmp_path):
    goods = tmp_path / "stock"
    goods.write_bytes(bytes(8 * SHARDS))
    told = [str(one) for one in (goods, PROCESSES, TIMES, SHARDS, url)]

    subprocess.run(
        [sys.executable, str(Path(sharded_stock.__file__)), *told],
        env=environment(),
        check=True,
        timeout=LONG,
    )

    sold = struct.unpack(f"={SHARDS}q", goods.read_bytes())
    assert sum(sold) == PROCESSES * TIMES
    assert all(sold)


def test_a_crowd_is_who_holds_and_who_waits(flavour, url, namespace):
    locks, other = (flavour.locks(url, namespace=namespace) for _ in range(2))
    client = getattr(locks, "_inner", locks)._client
    names = ["stock#0", "stock#1", "stock#2", "stock#3"]
    held = other.lock(names[0]).acquire()
    left = other.lock(names[1]).acquire()
    left.release()
    other.lock(names[3], min_hold=60).acquire().release()
    waiting = flavour.start(locks.lock(names[0]).acquire, timeout=60)
    eventually(lambda: number_waiting(locks))

    seen = flavour.call(client.backend.crowds, names, deadline=flavour.clock.now() + 30)

    assert list(seen) == [
        Crowd(2, held.token),
        Crowd(0, left.token),
        Crowd(0, None),
        Crowd(1, seen[3].last_token),
    ]
    held.release()
    waiting.result(60)
