"""Five Redis servers for the benchmark; run as a module, this is a proxy that delays messages."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import lockfast
from bench.redis_server import running

NODES = 5
MAX_TTL = 3.0
"""The ttl of all contenders, in seconds; short, because new nodes grant nothing for this long."""

NODE_TIMEOUT = 1.0
"""Timeout for one node, in seconds; long, because one machine runs all nodes and clients."""


@contextmanager
def five() -> Iterator[list[int]]:
    """Yield the ports of five new servers that already grant locks."""
    with ExitStack() as stack:
        ports = [stack.enter_context(running()) for _ in range(NODES)]
        with lockfast.Locks(url(ports), ttl=MAX_TTL, max_ttl=MAX_TTL) as locks:
            until_they_count(locks)
        yield ports


def until_they_count(locks: lockfast.Locks) -> None:
    """Return once the nodes grant a lock."""
    while True:
        try:
            with locks.lock("first"):
                return
        except lockfast.BackendUnavailable:
            time.sleep(0.1)


def places(ports: list[int]) -> list[dict[str, object]]:
    """Return the addresses and the node timeout, in the form that the competitors take."""
    return [{"host": "127.0.0.1", "port": port, "socket_timeout": NODE_TIMEOUT} for port in ports]


def url(ports: list[int]) -> str:
    """Return the URL of these nodes."""
    return f"redlock://{','.join(f'127.0.0.1:{port}' for port in ports)}"


@contextmanager
def delayed(ports: list[int], seconds: float) -> Iterator[list[int]]:
    """Yield the ports of a proxy that adds this many seconds to each round trip to the servers."""
    command = [sys.executable, "-m", "bench.redlock_nodes", str(seconds / 2), *map(str, ports)]
    proxy = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert proxy.stdout is not None
        yield [int(port) for port in proxy.stdout.readline().split()]
    finally:
        proxy.kill()
        proxy.wait()


async def delay(seconds: float, ports: list[int]) -> None:
    """Forward all data between clients and servers, this many seconds late."""
    loop = asyncio.get_running_loop()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            loop.call_later(seconds, writer.write, data)
        loop.call_later(seconds, writer.close)

    def to(port: int) -> object:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            answers, server = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.gather(pump(reader, server), pump(answers, writer))

        return serve

    servers = [await asyncio.start_server(to(port), "127.0.0.1", 0) for port in ports]
    print(*(one.sockets[0].getsockname()[1] for one in servers), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(delay(float(sys.argv[1]), [int(port) for port in sys.argv[2:]]))
