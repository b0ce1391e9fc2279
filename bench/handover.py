"""Makes two processes hand one lock back and forth; run as a module, this is one of the two.

Each suite lists its contenders in a dictionary `CONTENDERS`, which maps a name to a function that
makes the lock for a port.

A handover lasts from the moment one process begins to release until the other process, which has
been waiting in line, has the lock. All processes of a machine share the boot clock.
"""

from __future__ import annotations

import importlib
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

WORK = 0.003
"""How long a lock is held, in seconds: long enough for the other process to get back in line."""

SECONDS = 1.5


@dataclass(frozen=True)
class Turn:
    """One hold: its worker, and when the lock was taken and released, on the boot clock."""

    worker: int
    taken: float
    given: float


@dataclass(frozen=True)
class Result:
    """All turns of a game, in order."""

    turns: list[Turn]

    @property
    def handovers(self) -> list[float]:
        """Return the seconds from each release to the other worker's grant."""
        pairs = zip(self.turns, self.turns[1:], strict=False)
        return [after.taken - one.given for one, after in pairs if one.worker != after.worker]


def times_of(games: Sequence[Result]) -> list[float]:
    """Return the seconds of all handovers in the games of one contender."""
    return [one for game in games for one in game.handovers]


def cells(times: Sequence[float]) -> list[str]:
    """Return median, 99th percentile and maximum in milliseconds, as table cells."""
    figures = (statistics.median(times), statistics.quantiles(times, n=100)[98], max(times))
    return [f"{one * 1e3:.2f}" for one in figures]


def play(module: str, name: str, *, port: int) -> Result:
    """Make two workers hand the named contender's lock back and forth, and return their turns."""
    workers = [
        subprocess.Popen(
            [sys.executable, "-m", "bench.handover", module, name, str(port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for one in workers:
        assert one.stdout is not None
        one.stdout.readline()  # the worker is ready
    start = _now() + 0.2
    for one in workers:
        assert one.stdin is not None
        one.stdin.write(f"{start}\n")
        one.stdin.flush()
    reports = [json.loads(one.communicate(timeout=60)[0]) for one in workers]
    turns = [Turn(number, *times) for number, each in enumerate(reports) for times in each]
    return Result(sorted(turns, key=lambda one: one.taken))


def work(module: str, name: str, port: int) -> None:
    """Take turns until the time is over, and print the start and end of each turn."""
    lock = importlib.import_module(module).CONTENDERS[name](port)
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
    work(sys.argv[1], sys.argv[2], int(sys.argv[3]))
