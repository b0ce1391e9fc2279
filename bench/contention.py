"""Makes worker processes compete for one lock; run as a module, this is one of the workers.

A machine's speed varies from second to second by more than two contenders differ. So the teams of
all contenders keep running and play short games in turns, and the games of one round meet the same
conditions.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Self

from bench.pairing import Ratios
from bench.redlock_nodes import MAX_TTL, NODE_TIMEOUT, places

WORK = 0.0005
SECONDS = 4.0
ROUNDS = 12
"""Number of games of each contender; a game lasts one second."""


def _redlock(ports: str) -> Callable[[], AbstractContextManager[object]]:
    import lockfast  # noqa: PLC0415

    where = ",".join(f"127.0.0.1:{port}" for port in ports.split(","))
    options = {"ttl": MAX_TTL, "max_ttl": MAX_TTL, "node_timeout": NODE_TIMEOUT}
    locks = lockfast.Locks(f"redlock://{where}", **options)
    lock = locks.lock("ball")
    return lambda: lock


def _redlock_py(ports: str) -> Callable[[], AbstractContextManager[object]]:
    import redlock  # noqa: PLC0415

    manager = redlock.Redlock(places(list(map(int, ports.split(",")))))

    @contextmanager
    def held() -> Iterator[None]:
        while not (lock := manager.lock("ball", int(MAX_TTL * 1000))):
            pass
        try:
            yield
        finally:
            manager.unlock(lock)

    return held


def _pottery(ports: str) -> Callable[[], AbstractContextManager[object]]:
    import pottery  # noqa: PLC0415
    import redis  # noqa: PLC0415

    nodes = places(list(map(int, ports.split(","))))
    masters = {redis.Redis(**one) for one in nodes}  # type: ignore[arg-type]
    return lambda: pottery.Redlock(key="ball", masters=masters, auto_release_time=MAX_TTL)


def _lockfast(port: int) -> Callable[[], AbstractContextManager[object]]:
    import lockfast  # noqa: PLC0415 - each worker loads only its own library

    lock = lockfast.Locks(f"redis://127.0.0.1:{port}").lock("ball")
    return lambda: lock


def _redis_py(port: int) -> Callable[[], AbstractContextManager[object]]:
    import redis  # noqa: PLC0415

    client = redis.Redis(port=port)
    return lambda: client.lock("ball", timeout=30)


def _python_redis_lock(port: int) -> Callable[[], AbstractContextManager[object]]:
    import redis  # noqa: PLC0415
    import redis_lock  # noqa: PLC0415

    client = redis.Redis(port=port)
    return lambda: redis_lock.Lock(client, "ball", expire=30)


ON_NODES = {
    "lockfast redlock": _redlock,
    "redlock-py": _redlock_py,
    "pottery": _pottery,
}
"""Contenders that take several ports."""

CONTENDERS = {
    "lockfast redis": _lockfast,
    "redis-py Lock": _redis_py,
    "python-redis-lock": _python_redis_lock,
}


@dataclass(frozen=True)
class Result:
    """The result of one or more games: how long each worker waited for each of its turns."""

    seconds: float
    waits: list[list[float]]

    @property
    def turns(self) -> int:
        """Return the number of turns."""
        return sum(map(len, self.waits))

    @property
    def rate(self) -> float:
        """Return the turns per second."""
        return self.turns / self.seconds

    @property
    def fairness(self) -> float:
        """Return Jain's index: 1 where all workers had the same number of turns."""
        return self.turns**2 / (len(self.waits) * sum(len(each) ** 2 for each in self.waits))

    def __add__(self, other: Result) -> Result:
        waits = [ours + more for ours, more in zip(self.waits, other.waits, strict=True)]
        return Result(self.seconds + other.seconds, waits)

    def quantile(self, percent: int) -> float:
        """Return the wait, in seconds, that this percentage of the turns did not exceed."""
        return statistics.quantiles(self._all, n=100)[percent - 1]

    @property
    def _all(self) -> list[float]:
        return [wait for each in self.waits for wait in each]

    def cells(self) -> list[str]:
        """Return the figures as table cells."""
        waits = (self.quantile(50), self.quantile(99), max(self._all))
        return [
            f"{self.rate:.0f}",
            *(f"{one * 1e3:.1f}" for one in waits),
            f"{self.fairness:.2f}",
        ]


class Team:
    """The workers of one contender, for any number of games."""

    def __init__(self, name: str, *, port: int | str, workers: int) -> None:
        self._processes = [
            subprocess.Popen(
                [sys.executable, "-m", "bench.contention", name, str(port)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(workers)
        ]

    def __enter__(self) -> Self:
        for one in self._processes:
            assert one.stdout is not None
            one.stdout.readline()  # the worker is ready
        return self

    def __exit__(self, *_: object) -> None:
        for one in self._processes:
            one.communicate(timeout=120)  # closes stdin, which ends the last game

    def play(self, seconds: float) -> Result:
        """Make the workers compete for this many seconds."""
        start = time.clock_gettime(time.CLOCK_BOOTTIME) + 0.2
        for one in self._processes:
            assert one.stdin is not None
            one.stdin.write(f"{start} {seconds}\n")
            one.stdin.flush()
        waits = []
        for one in self._processes:
            assert one.stdout is not None
            waits.append(json.loads(one.stdout.readline()))
        return Result(seconds, waits)


def play(name: str, *, port: int | str, workers: int) -> Result:
    """Make the workers of one contender compete for a while."""
    with Team(name, port=port, workers=workers) as team:
        return team.play(SECONDS)


def over(ours: list[Result], theirs: list[Result]) -> Ratios:
    """Return the ratio of our rate to theirs, for each pair of games."""
    pairs = zip(ours, theirs, strict=True)
    return Ratios([one.rate / other.rate for one, other in pairs])


def in_turns(
    teams: Mapping[str, Team], game: Callable[[str, Team], Result]
) -> dict[str, list[Result]]:
    """Return the games of each team; a round has one game of each team, in alternating order."""
    games: dict[str, list[Result]] = {name: [] for name in teams}
    names = list(teams)
    for _ in range(ROUNDS):
        names.reverse()
        for name in names:
            games[name].append(game(name, teams[name]))
    return games


def work(name: str, place: str) -> None:
    """Take turns until the end of each game, and print how long each turn waited for the lock."""
    make = ON_NODES[name](place) if name in ON_NODES else CONTENDERS[name](int(place))
    with make():
        pass
    print("ready", flush=True)
    for line in sys.stdin:
        start, seconds = map(float, line.split())
        print(json.dumps(_waits(make, start, start + seconds)), flush=True)


def _waits(
    make: Callable[[], AbstractContextManager[object]], start: float, end: float
) -> list[float]:
    while time.clock_gettime(time.CLOCK_BOOTTIME) < start:
        time.sleep(0.001)
    waits = []
    asked = start
    while asked < end:
        with make():
            taken = time.clock_gettime(time.CLOCK_BOOTTIME)
            time.sleep(WORK)
        if taken < end:
            waits.append(taken - asked)
        asked = time.clock_gettime(time.CLOCK_BOOTTIME)
    return waits


if __name__ == "__main__":
    work(sys.argv[1], sys.argv[2])
