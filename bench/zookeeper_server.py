"""A ZooKeeper server for the benchmark: on loopback, in a temporary directory."""

from __future__ import annotations

import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CLASSES = "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar"
MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"


@contextmanager
def running() -> Iterator[int]:
    """Yield the port of a new server that never waits for its disk; stop the server afterwards."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="lockfast-bench-") as directory:
        settings = Path(directory) / "zoo.cfg"
        settings.write_text(
            f"tickTime=2000\ndataDir={directory}/data\nclientPort={port}\n"
            "clientPortAddress=127.0.0.1\nadmin.enableServer=false\n"
            "4lw.commands.whitelist=*\nmaxClientCnxns=0\n",
            encoding="utf-8",
        )
        server = subprocess.Popen(
            ["java", "-Xlog:disable", "-Dzookeeper.forceSync=no", "-cp", CLASSES, MAIN, settings],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            _wait_for(port)
            yield port
        finally:
            server.kill()
            server.wait()


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + 20
    while "Mode:" not in _asked(port, b"srvr"):
        if time.monotonic() > deadline:
            raise TimeoutError("ZooKeeper did not start")
        time.sleep(0.02)


def requests_received(port: int) -> int:
    """Return how many requests clients have sent, including pings."""
    return int(_figures(port)["zk_packets_received"])


def server_version(port: int) -> str:
    """Return the version that the server reports."""
    return _figures(port)["zk_version"].partition("-")[0]


def _figures(port: int) -> dict[str, str]:
    lines = (line.partition("\t") for line in _asked(port, b"mntr").splitlines())
    return {key: value for key, _, value in lines}


def _asked(port: int, word: bytes) -> str:
    answer = b""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            connection.sendall(word)
            while data := connection.recv(65536):
                answer += data
    except OSError:
        return ""
    return answer.decode()
