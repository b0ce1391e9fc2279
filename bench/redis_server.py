"""A Redis server for the benchmark: on loopback, in a temporary directory."""

from __future__ import annotations

import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

import redis

QUIET = ("--save", "", "--appendonly", "no")


@contextmanager
def running() -> Iterator[int]:
    """Yield the port of a new server; stop the server afterwards."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="lockfast-bench-") as directory:
        server = subprocess.Popen(
            [
                "redis-server",
                "--port",
                str(port),
                "--bind",
                "127.0.0.1",
                "--dir",
                directory,
                *QUIET,
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            _wait_for(port)
            _PIDS[port] = server.pid
            yield port
        finally:
            server.kill()
            server.wait()


_PIDS: dict[int, int] = {}


def pid_of(port: int) -> int:
    """Return the process id of a running server."""
    return _PIDS[port]


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + 10
    while True:
        try:
            with redis.Redis(port=port) as client:
                client.ping()
        except redis.ConnectionError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return


SENT = ("evalsha", "eval", "set", "blpop", "subscribe")
"""Commands that our client and its competitors send, and that no script calls."""


def commands_sent(client: redis.Redis) -> int:
    """Return how many commands clients have sent."""
    stats = client.info("commandstats")

    def calls(command: str) -> int:
        return stats.get(f"cmdstat_{command}", {"calls": 0})["calls"]

    # Our client also sends TIME, and each of our scripts calls TIME once. No competitor uses TIME.
    return sum(map(calls, SENT)) + max(0, calls("time") - calls("evalsha"))
