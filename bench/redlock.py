"""Measures Redlock on five nodes against the alternatives."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from importlib.metadata import version

import aioredlock
import pottery
import redis
import redlock

import lockfast
from bench import contention
from bench.measuring import machine, report_ratios, side_by_side
from bench.redis_server import pid_of
from bench.redlock_nodes import MAX_TTL, NODE_TIMEOUT, delayed, five, places, url
from bench.reporting import Report

OURS = "lockfast redlock"
OPTIONS = {"ttl": MAX_TTL, "max_ttl": MAX_TTL, "node_timeout": NODE_TIMEOUT}
FAR = 0.002
WORKERS = 16


def main() -> Report:
    report = Report("redlock", "Redlock, measured")
    peers = ("redis", "redlock-py", "pottery", "aioredlock")
    with five() as ports:
        server = redis.Redis(port=ports[0]).info("server")["redis_version"]
        versions = ", ".join(f"{peer} {version(peer)}" for peer in peers)
        report.say(
            f"Five Redis servers {server}; {versions}; {machine()}. "
            f"All in one run, in turns, with the same ttl ({MAX_TTL:g} s) and, but for aioredlock, "
            f"waiting for a node as long ({NODE_TIMEOUT:g} s); `make bench` repeats it."
        )
        near = sync_cycles(ports, cycles=100)
        report_ratios(report, "Uncontended, on loopback: acquire and release", near, ours=OURS)
        with delayed(ports, FAR) as distant:
            far = sync_cycles(distant, cycles=20)
        report_ratios(report, "Uncontended, 2 ms away", far, ours=OURS)
        report_ratios(report, "In asyncio, one task", asyncio.run(tasks(ports)), ours=OURS)
        contended(report, ports)
        hung(report, ports)
    return report


def sync_cycles(ports: list[int], *, cycles: int) -> dict[str, float]:
    """One thread acquires and releases a free lock."""
    locks = lockfast.Locks(url(ports), **OPTIONS)
    manager = redlock.Redlock(places(ports))
    masters = {redis.Redis(**one) for one in places(ports)}  # type: ignore[arg-type]
    found = side_by_side(
        {
            OURS: cycle_of(locks.lock("ours")),
            "redlock-py": lambda cycles: [
                manager.unlock(manager.lock("theirs", int(MAX_TTL * 1000))) for _ in range(cycles)
            ],
            "pottery": cycle_of(
                pottery.Redlock(key="p", masters=masters, auto_release_time=MAX_TTL)
            ),
        },
        rounds=9,
        cycles=cycles,
    )
    locks.close()
    return found


def cycle_of(lock: object) -> Callable[[int], None]:
    def run(cycles: int) -> None:
        for _ in range(cycles):
            with lock:  # type: ignore[attr-defined]
                pass

    return run


async def tasks(ports: list[int]) -> dict[str, float]:
    """One task acquires and releases a free lock."""
    locks = lockfast.AsyncLocks(url(ports), **OPTIONS)
    # aioredlock has no configurable node timeout; a lock that takes too long counts as not
    # acquired.
    manager = aioredlock.Aioredlock([{"host": "127.0.0.1", "port": port} for port in ports])
    lock = locks.lock("ours")

    async def ours() -> None:
        async with lock:
            pass

    async def theirs() -> None:
        await manager.unlock(await manager.lock("theirs", lock_timeout=MAX_TTL))

    times: dict[str, list[float]] = {OURS: [], "aioredlock": []}
    for _ in range(8):
        for name, run in ((OURS, ours), ("aioredlock", theirs)):
            started = time.perf_counter()
            for _ in range(50):
                await run()
            times[name].append((time.perf_counter() - started) / 50)
    await locks.aclose()
    await manager.destroy()
    return {name: sorted(each)[len(each) // 2] for name, each in times.items()}


def contended(report: Report, ports: list[int]) -> None:
    """Workers acquire the same lock, each in its own process."""
    place = ",".join(map(str, ports))
    rows = []
    for name in contention.ON_NODES:
        clients = [redis.Redis(port=port) for port in ports]
        for one in clients[1:]:
            one.config_resetstat()
        result = contention.play(name, port=place, workers=WORKERS)
        # Leave out the node that is contacted first. Every request to the other nodes belongs to a
        # round.
        asked = [calls(one) for one in clients[1:]]
        rows.append([name, *result.cells(), f"{sum(asked) / len(asked) / result.turns:.1f}"])
    report.table(
        f"{WORKERS} worker processes on one name, held for {contention.WORK * 1e3:g} ms each",
        ["", "per s", "p50 ms", "p99 ms", "max ms", "Jain", "requests per node"],
        rows,
    )


def calls(client: redis.Redis) -> int:
    """Return how many client requests a node has executed; one of our rounds is two requests."""
    stats = client.info("commandstats")
    return sum(stats.get(f"cmdstat_{one}", {"calls": 0})["calls"] for one in ("evalsha", "eval"))


def hung(report: Report, ports: list[int]) -> None:
    """Compare five healthy nodes with five nodes of which two hang."""
    with five() as others:
        well = lockfast.Locks(url(ports), ttl=MAX_TTL, max_ttl=MAX_TTL)
        ill = lockfast.Locks(url(others), ttl=MAX_TTL, max_ttl=MAX_TTL)
        runs = {"all well": cycle_of(well.lock("ours")), "two hang": cycle_of(ill.lock("ours"))}
        runs["two hang"](50)
        for port in others[1:3]:
            os.kill(pid_of(port), signal.SIGSTOP)
        first = timed(runs["two hang"], 1)
        seconds = side_by_side(runs, rounds=9, cycles=100)
        for port in others[1:3]:
            os.kill(pid_of(port), signal.SIGCONT)
        for one in (well, ill):
            one.close()
    rows = [
        [name, f"{each * 1e6:.0f}", f"{each / seconds['all well']:.2f} x"]
        for name, each in {**seconds, "two hang, the first cycle": first}.items()
    ]
    report.table("Two of five nodes hang", ["", "µs per cycle", "of all well"], rows)


def timed(run: Callable[[int], None], cycles: int) -> float:
    started = time.perf_counter()
    run(cycles)
    return (time.perf_counter() - started) / cycles


if __name__ == "__main__":
    main()
