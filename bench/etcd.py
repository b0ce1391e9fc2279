"""etcd: against the two raw calls on the same wire, and the locks of other clients."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from importlib.metadata import version

import aetcd
import etcd3gw

import holdfast
from bench.etcd_server import running, server_version
from bench.measuring import machine, side_by_side, tell_ratios
from bench.reporting import Report
from holdfast.backends.etcd import addresses, requests
from holdfast.backends.etcd._sync.members import Members
from holdfast.backends.etcd.requests import Is, Of, compare
from holdfast.runtime.clock import Clock

OURS = "holdfast"
CYCLES = 100
TASKS = 100


def main() -> Report:
    report = Report("etcd", "etcd, measured")
    with running() as port:
        report.say(
            f"etcd {server_version(port)}, one server, which does not wait for its disk "
            f"(`--unsafe-no-fsync`); etcd3gw {version('etcd3gw')}, aetcd {version('aetcd')}; "
            f"{machine()}. All in one run, in turns; `make bench` repeats it."
        )
        uncontended(report, port)
        asyncio.run(concurrent(report, port))
        handed_over(report, port)
    return report


# -- one lock, nobody else ---------------------------------------------------------------


def uncontended(report: Report, port: int) -> None:
    """One thread takes and gives back what is free."""
    clock = Clock()
    url = f"etcd://127.0.0.1:{port}"
    members = Members(addresses.of_url(url, where=url, namespace="raw", options={}), clock=clock)
    take = requests.transaction(
        [compare(b"raw/lock", Of.CREATED, Is.EQUAL, 0)], [requests.put(b"raw/lock", b"x" * 100)]
    )
    give = requests.transaction(
        [compare(b"raw/lock", Of.CREATED, Is.GREATER, 0)], [requests.delete(b"raw/lock")]
    )

    def raw(cycles: int) -> None:
        for _ in range(cycles):
            members.ask(take, deadline=clock.now() + 5)
            members.ask(give, deadline=clock.now() + 5)

    with holdfast.Locks(url) as locks:
        lock = locks.lock("ours")
        theirs = etcd3gw.client(port=port)

        def ours(cycles: int) -> None:
            for _ in range(cycles):
                with lock:
                    pass

        def gateway(cycles: int) -> None:
            for number in range(cycles):
                with theirs.lock(f"theirs-{number}", ttl=30):
                    pass

        contestants = {OURS: ours, "two raw calls on our wire": raw, "etcd3gw Lock": gateway}
        seconds = side_by_side(contestants, rounds=9, cycles=CYCLES)
    members.close()
    tell_ratios(report, "Uncontended, one thread: acquire and release", seconds, ours=OURS)
    report.chart(
        "cycle", "Uncontended cycle", {name: one * 1e6 for name, one in seconds.items()}, "µs"
    )


# -- many tasks ----------------------------------------------------------------------------


async def concurrent(report: Report, port: int) -> None:
    """One task, and a hundred at once, each with a name of its own."""
    client = aetcd.Client(host="127.0.0.1", port=port)
    async with holdfast.AsyncLocks(f"etcd://127.0.0.1:{port}", request_timeout=20.0) as locks:

        async def ours(number: int) -> None:
            async with locks.lock(f"ours-{number}"):
                pass

        async def theirs(number: int) -> None:
            async with client.lock(f"theirs-{number}".encode(), ttl=30):
                pass

        rows = []
        times = {}
        for name, cycle in ((OURS, ours), ("aetcd Lock", theirs)):
            times[name] = [await _per_cycle(cycle, tasks) for tasks in (1, TASKS)]
        for name, (one, many) in times.items():
            ratios = [""] * 2
            if name != OURS:
                ratios = [f"{a / b:.2f} x" for a, b in zip(times[OURS], (one, many), strict=True)]
            figures = f"{one * 1e6:.0f}", ratios[0], f"{many * 1e6:.0f}", ratios[1]
            rows.append([name, *figures, f"{one / many:.1f}"])
    await client.close()
    report.table(
        f"Uncontended, asyncio: one task, and {TASKS} at once, each with its own name",
        ["", "one: µs", "ours is", f"{TASKS}: µs per cycle", "ours is", "rate of all to one"],
        rows,
    )


async def _per_cycle(cycle: Callable[[int], Awaitable[None]], tasks: int) -> float:
    async def worker(number: int) -> None:
        for _ in range(CYCLES if tasks == 1 else 5):
            await cycle(number)

    times = []
    for _ in range(7):
        begun = time.perf_counter()
        await asyncio.gather(*(worker(number) for number in range(tasks)))
        times.append((time.perf_counter() - begun) / (CYCLES if tasks == 1 else 5 * tasks))
    return statistics.median(times)


# -- from one to the next -------------------------------------------------------------------


def handed_over(report: Report, port: int) -> None:
    """Two clients of one loop hand a lock to each other; against a round trip on the same wire."""
    handovers, trips = asyncio.run(_handed_over(port))
    took, trip = statistics.median(handovers), statistics.median(trips)
    report.table(
        "Hand-over between two clients, asyncio",
        ["", "µs", "round trips"],
        [
            ["release, to the other's going on", f"{took * 1e6:.0f}", f"{took / trip:.1f}"],
            ["one round trip that a quorum agrees on", f"{trip * 1e6:.0f}", "1.0"],
        ],
    )


async def _handed_over(port: int) -> tuple[list[float], list[float]]:
    url = f"etcd://127.0.0.1:{port}"
    handovers: list[float] = []
    trips: list[float] = []
    async with holdfast.AsyncLocks(url) as one, holdfast.AsyncLocks(url) as two:
        for _ in range(CYCLES):
            lease = await one.lock("ball").acquire()
            waiting = asyncio.create_task(_taken(two))
            while not (await one.inspect("ball")).line:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.005)
            begun = time.perf_counter()
            await lease.release()
            handovers.append(await waiting - begun)
            begun = time.perf_counter()
            other = await one.lock("trip").acquire()
            trips.append(time.perf_counter() - begun)
            await other.release()
    return handovers, trips


async def _taken(locks: holdfast.AsyncLocks) -> float:
    async with locks.lock("ball"):
        return time.perf_counter()


if __name__ == "__main__":
    main()
