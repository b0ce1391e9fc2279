"""Workers that fight for one lock, each in a process of its own; run as a module, one of them."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from bench.redlock_nodes import MAX_TTL, NODE_TIMEOUT, places

WORK = 0.0005
SECONDS = 4.0


def _redlock(ports: str) -> Callable[[], AbstractContextManager[object]]:
    import holdfast  # noqa: PLC0415

    where = ",".join(f"127.0.0.1:{port}" for port in ports.split(","))
    options = {"ttl": MAX_TTL, "max_ttl": MAX_TTL, "node_timeout": NODE_TIMEOUT}
    locks = holdfast.Locks(f"redlock://{where}", **options)
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


def _holdfast(port: int) -> Callable[[], AbstractContextManager[object]]:
    import holdfast  # noqa: PLC0415 - each worker loads what it is

    lock = holdfast.Locks(f"redis://127.0.0.1:{port}").lock("ball")
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
    "holdfast redlock": _redlock,
    "redlock-py": _redlock_py,
    "pottery": _pottery,
}
"""Those that are told several ports."""

CONTENDERS = {
    "holdfast redis": _holdfast,
    "redis-py Lock": _redis_py,
    "python-redis-lock": _python_redis_lock,
}


@dataclass(frozen=True)
class Result:
    """What all workers together did."""

    turns: int
    rate: float
    waits: list[float]
    fairness: float

    def quantile(self, percent: int) -> float:
        """Return the wait that so many percent did not exceed."""
        return statistics.quantiles(self.waits, n=100)[percent - 1]

    def cells(self) -> list[str]:
        """Return the figures as they stand in a table."""
        waits = (self.quantile(50), self.quantile(99), max(self.waits))
        return [
            f"{self.rate:.0f}",
            *(f"{one * 1e3:.1f}" for one in waits),
            f"{self.fairness:.2f}",
        ]


def play(name: str, *, port: int | str, workers: int) -> Result:
    """Let the workers fight for a while."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "bench.contention", name, str(port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(workers)
    ]
    for one in processes:
        assert one.stdout is not None
        one.stdout.readline()  # it is ready
    start = time.clock_gettime(time.CLOCK_BOOTTIME) + 0.2
    for one in processes:
        assert one.stdin is not None
        one.stdin.write(f"{start}\n")
        one.stdin.flush()
    waits = [json.loads(one.communicate(timeout=120)[0]) for one in processes]
    turns = [len(each) for each in waits]
    jain = sum(turns) ** 2 / (workers * sum(count * count for count in turns))
    return Result(sum(turns), sum(turns) / SECONDS, [w for each in waits for w in each], jain)


def work(name: str, place: str) -> None:
    """Take turns until the time is over, and tell how long each was waited for."""
    make = ON_NODES[name](place) if name in ON_NODES else CONTENDERS[name](int(place))
    with make():
        pass
    print("ready", flush=True)
    start = float(sys.stdin.readline())
    while time.clock_gettime(time.CLOCK_BOOTTIME) < start:
        time.sleep(0.001)
    waits = []
    asked = start
    while asked < start + SECONDS:
        with make():
            taken = time.clock_gettime(time.CLOCK_BOOTTIME)
            time.sleep(WORK)
        if taken < start + SECONDS:
            waits.append(taken - asked)
        asked = time.clock_gettime(time.CLOCK_BOOTTIME)
    print(json.dumps(waits), flush=True)


if __name__ == "__main__":
    work(sys.argv[1], sys.argv[2])
