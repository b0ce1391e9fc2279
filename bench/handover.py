"""Two processes that hand one lock to and fro; run as a module, one of them.

What is timed is the way from the moment when one begins to give back until the other, who has
been waiting in line, goes on. The boot clock is the same for all processes of a machine.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from kazoo.client import KazooClient

import holdfast

WORK = 0.003
"""Long enough for the other to come back and stand in line."""

SECONDS = 1.5


def _ours(port: int) -> holdfast.Locks:
    return holdfast.Locks(f"zookeeper://127.0.0.1:{port}")


def _theirs(port: int) -> KazooClient:
    client = KazooClient(f"127.0.0.1:{port}", timeout=30)
    client.start()
    return client


CONTENDERS: dict[str, Callable[[int], AbstractContextManager[object]]] = {
    "holdfast Lock": lambda port: _ours(port).lock("ball"),
    "kazoo Lock": lambda port: _theirs(port).Lock("/theirs/ball"),
    "holdfast write lock": lambda port: _ours(port).rwlock("page").write(),
    "kazoo WriteLock": lambda port: _theirs(port).WriteLock("/theirs/page"),
}
"""Ours, and then what it is measured against."""


@dataclass(frozen=True)
class Turn:
    """One hold: by whom, from when until it was given back, on the boot clock."""

    worker: int
    taken: float
    given: float


@dataclass(frozen=True)
class Result:
    """All turns of a game, in order."""

    turns: list[Turn]

    @property
    def handovers(self) -> list[float]:
        """Return the seconds from each giving back to the other's taking."""
        pairs = zip(self.turns, self.turns[1:], strict=False)
        return [after.taken - one.given for one, after in pairs if one.worker != after.worker]


def play(name: str, *, port: int) -> Result:
    """Let two workers hand the lock to each other for a while."""
    workers = [
        subprocess.Popen(
            [sys.executable, "-m", "bench.handover", name, str(port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for one in workers:
        assert one.stdout is not None
        one.stdout.readline()  # it is ready
    start = _now() + 0.2
    for one in workers:
        assert one.stdin is not None
        one.stdin.write(f"{start}\n")
        one.stdin.flush()
    told = [json.loads(one.communicate(timeout=60)[0]) for one in workers]
    turns = [Turn(number, *times) for number, each in enumerate(told) for times in each]
    return Result(sorted(turns, key=lambda one: one.taken))


def work(name: str, port: int) -> None:
    """Take turns until the time is over, and tell when each began and ended."""
    lock = CONTENDERS[name](port)
    with lock:
        pass
    print("ready", flush=True)
    start = float(sys.stdin.readline())
    while _now() < start:
        time.sleep(0.001)
    turns = []
    while _now() < start + SECONDS:
        with lock:
            taken = _now()
            time.sleep(WORK)
            given = _now()
        turns.append((taken, given))
    print(json.dumps(turns), flush=True)


def _now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


if __name__ == "__main__":
    work(sys.argv[1], int(sys.argv[2]))
