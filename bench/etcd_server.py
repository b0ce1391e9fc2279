"""An etcd server for the benchmark: on loopback, in a temporary directory."""

from __future__ import annotations

import json
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def running() -> Iterator[int]:
    """Yield the port of a new server that never waits for its disk; stop the server afterwards."""
    ports = []
    for _ in range(2):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            ports.append(free.getsockname()[1])
    client, peer = (f"http://127.0.0.1:{port}" for port in ports)
    with tempfile.TemporaryDirectory(prefix="lockfast-bench-") as directory:
        server = subprocess.Popen(
            [
                *("etcd", "--name", "n0", "--data-dir", directory, "--unsafe-no-fsync"),
                *("--listen-client-urls", client, "--advertise-client-urls", client),
                *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
                *("--initial-cluster", f"n0={peer}", "--logger", "zap", "--log-level", "error"),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            _wait_for(client)
            yield ports[0]
        finally:
            server.kill()
            server.wait()


def _wait_for(url: str) -> None:
    deadline = time.monotonic() + 20
    while True:
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=1) as answer:  # noqa: S310 - ours
                if json.load(answer)["health"] == "true":
                    return
        except OSError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.02)


def server_version(port: int) -> str:
    """Return the version that the server reports."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/version", timeout=1) as answer:
        return str(json.load(answer)["etcdserver"])
