"""A program that forks repeatedly while it uses etcd; run by `test_forking_wire.py`.

The parent and each child use the transport that the parent opened. The program prints the CPU time
of the longest fork, and fails if any process does not get the reply to its own request.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time

from lockfast.backends.etcd import address as etcd_address
from lockfast.backends.etcd import requests
from lockfast.backends.etcd._async.members import AsyncMembers
from lockfast.backends.etcd._sync.members import Members
from lockfast.runtime import fork
from lockfast.runtime.clock import Clock

PATIENCE = 30.0
FORKS = 100

clock = Clock()


def main(url: str, flavour: str, is_busy: bool) -> None:  # noqa: FBT001 - called only below
    address = etcd_address.of_url(url, where=url, namespace="test", options={})
    run = in_threads if flavour == "sync" else in_a_loop
    print(run(address, is_busy))  # noqa: T201 - read by the process that started it


def forked(child) -> float:
    """Fork, run `child` in the child, and return the fork's CPU time; fail if the child fails."""
    began = time.process_time()
    pid = os.fork()
    took = time.process_time() - began
    if pid == 0:
        code = 1
        try:
            child()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    assert status == 0, "a child failed"
    return took


def in_threads(address: etcd_address.Address, is_busy: bool) -> float:  # noqa: FBT001
    transport = Members(address, clock=clock)
    fork.reset_in_child(transport)
    stop = threading.Event()
    wrong: list[object] = []

    def ask(name: bytes) -> None:
        [found] = transport.ask(requests.range_(name), deadline=clock.now() + PATIENCE).keys
        if found.value != name:
            wrong.append(found)

    def keep_asking(name: bytes) -> None:
        while not stop.is_set():
            ask(name)

    for name in (b"fork/a", b"fork/b", b"fork/c"):
        transport.ask(requests.put(name, name), deadline=clock.now() + PATIENCE)
    watching = transport.watch(lambda _: None, deadline=clock.now() + PATIENCE)
    watching.send(requests.watch(1, b"fork/a", since=0, deletions=True))
    threads = [threading.Thread(target=keep_asking, args=[name]) for name in (b"fork/a", b"fork/b")]
    for one in threads if is_busy else ():
        one.start()
    longest = max(forked(lambda: ask(b"fork/c")) for _ in range(FORKS))
    stop.set()
    for one in threads if is_busy else ():
        one.join()
    ask(b"fork/c")
    assert not wrong, wrong
    assert watching.listen(until=clock.now() + 0.01)
    watching.close()
    transport.close()
    return longest


def in_a_loop(address: etcd_address.Address, is_busy: bool) -> float:  # noqa: FBT001
    async def ask(transport: AsyncMembers, name: bytes) -> None:
        [found] = (await transport.ask(requests.range_(name), deadline=clock.now() + PATIENCE)).keys
        assert found.value == name, found

    async def run() -> float:
        transport = AsyncMembers(address, clock=clock)
        fork.reset_in_child(transport)
        for name in (b"fork/a", b"fork/b", b"fork/c"):
            await transport.ask(requests.put(name, name), deadline=clock.now() + PATIENCE)
        watching = await transport.watch(lambda _: None, deadline=clock.now() + PATIENCE)
        watching.send(requests.watch(1, b"fork/a", since=0, deletions=True))

        def child() -> None:
            # In the child, the parent's event loop still counts as running.
            asyncio._set_running_loop(None)
            asyncio.run(ask(transport, b"fork/c"))

        longest = 0.0
        for _ in range(FORKS):
            asking = [
                asyncio.create_task(ask(transport, name))
                for name in (b"fork/a", b"fork/b")
                if is_busy
            ]
            await asyncio.sleep(0)
            longest = max(longest, forked(child))
            await asyncio.gather(*asking)
        await ask(transport, b"fork/c")
        assert await watching.listen(until=clock.now() + 0.01)
        await watching.close()
        await transport.close()
        return longest

    return asyncio.run(run())


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3] == "busy")
