"""Measures etcd locks against two raw calls on the same transport, and against other clients."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping
from importlib.metadata import version

import aetcd
import etcd3gw

import lockfast
from bench.etcd_server import running, server_version
from bench.measuring import Timing, cycle_of, load, machine, timed
from bench.reporting import Report
from lockfast.backends.etcd import address, requests
from lockfast.backends.etcd._async.members import AsyncMembers
from lockfast.backends.etcd._sync.members import Members
from lockfast.backends.etcd.replies import Transacted
from lockfast.backends.etcd.requests import Is, Of, Request, compare
from lockfast.runtime.clock import Clock

OURS = "lockfast"
RAW = "two raw calls on our wire"
CYCLES = 100
TASKS = 100
ROUNDS = 11


def main() -> Report:
    report = Report("etcd", "etcd, measured")
    with running() as port:
        report.say(
            f"etcd {server_version(port)}, one server, which does not wait for its disk "
            f"(`--unsafe-no-fsync`); etcd3gw {version('etcd3gw')}, aetcd {version('aetcd')}; "
            f"{machine()}; {load()} when it began. All in one run, in "
            "turns; `make bench` repeats it."
        )
        uncontended(report, port)
        asyncio.run(concurrent(report, port))
        handed_over(report, port)
    report.say(f"At the end: {load()}.")
    return report


def raw_calls(key: bytes) -> tuple[Request[Transacted], Request[Transacted]]:
    """Return the two calls that any lock needs: put a key if it does not exist, and delete it."""
    take = requests.transaction(
        [compare(key, Of.CREATED, Is.EQUAL, 0)], [requests.put(key, b"x" * 100)]
    )
    give = requests.transaction([compare(key, Of.CREATED, Is.GREATER, 0)], [requests.delete(key)])
    return take, give


# -- one lock, no contention -------------------------------------------------------------


def uncontended(report: Report, port: int) -> None:
    """One thread acquires and releases a free lock."""
    clock = Clock()
    url = f"etcd://127.0.0.1:{port}"
    members = Members(address.of_url(url, where=url, namespace="raw", options={}), clock=clock)
    calls = raw_calls(b"raw/lock")

    def raw(cycles: int) -> None:
        for _ in range(cycles):
            for one in calls:
                members.ask(one, deadline=clock.now() + 5)

    with lockfast.Locks(url) as locks:
        theirs = etcd3gw.client(port=port)

        def gateway(cycles: int) -> None:
            for number in range(cycles):
                with theirs.lock(f"theirs-{number}", ttl=30):
                    pass

        ours = cycle_of(locks.lock("ours"))
        contestants = {OURS: ours, RAW: raw, "etcd3gw Lock": gateway}
        timings = timed(contestants, rounds=15, cycles=CYCLES)
    members.close()
    report.table(
        "Uncontended, one thread: acquire and release",
        ["", "µs", "of our processor", "ours is"],
        [
            [name, f"{one.seconds * 1e6:.0f}", f"{one.cpu * 1e6:.0f}", _ratio(timings, name)]
            for name, one in timings.items()
        ],
    )
    report.chart(
        "cycle",
        "Uncontended cycle",
        {name: one.seconds * 1e6 for name, one in timings.items()},
        "µs",
    )


def _ratio(timings: Mapping[str, Timing], name: str) -> str:
    return "" if name == OURS else f"{timings[OURS].over(timings[name]):.2f} x"


# -- many tasks ----------------------------------------------------------------------------


async def concurrent(report: Report, port: int) -> None:
    """Measure one task, and a hundred tasks at once; each task locks its own name."""
    clock, url = Clock(), f"etcd://127.0.0.1:{port}"
    client = aetcd.Client(host="127.0.0.1", port=port)
    members = AsyncMembers(address.of_url(url, where=url, namespace="raw", options={}), clock=clock)
    calls = [raw_calls(b"raw/%d" % number) for number in range(TASKS)]
    async with lockfast.AsyncLocks(url, request_timeout=20.0) as locks:

        async def ours(number: int) -> None:
            async with locks.lock(f"ours-{number}"):
                pass

        async def raw(number: int) -> None:
            for one in calls[number]:
                await members.ask(one, deadline=clock.now() + 20)

        async def theirs(number: int) -> None:
            async with client.lock(f"theirs-{number}".encode(), ttl=30):
                pass

        contestants = {OURS: ours, RAW: raw, "aetcd Lock": theirs}
        timings = {tasks: dict[str, Timing]() for tasks in (1, TASKS)}
        for _ in range(ROUNDS):
            for tasks, each in timings.items():
                for name, cycle in contestants.items():
                    await _timed(each.setdefault(name, Timing()), cycle, tasks)
    await client.close()
    await members.close()
    rows = []
    for name in contestants:
        one, many = (timings[tasks][name].seconds for tasks in (1, TASKS))
        ratios = [_ratio(timings[tasks], name) for tasks in (1, TASKS)]
        figures = f"{one * 1e6:.0f}", ratios[0], f"{many * 1e6:.0f}", ratios[1]
        rows.append([name, *figures, f"{one / many:.1f}"])
    report.table(
        f"Uncontended, asyncio: one task, and {TASKS} at once, each with its own name",
        ["", "one: µs", "ours is", f"{TASKS}: µs per cycle", "ours is", "rate of all to one"],
        rows,
    )


async def _timed(timing: Timing, cycle: Callable[[int], Awaitable[None]], tasks: int) -> None:
    cycles = CYCLES if tasks == 1 else 5

    async def worker(number: int) -> None:
        for _ in range(cycles):
            await cycle(number)

    begun, worked = time.perf_counter(), time.process_time()
    await asyncio.gather(*(worker(number) for number in range(tasks)))
    timing.passed.append((time.perf_counter() - begun) / (cycles * tasks))
    timing.worked.append((time.process_time() - worked) / (cycles * tasks))


# -- handover ------------------------------------------------------------------------------


def handed_over(report: Report, port: int) -> None:
    """Measure the handover between two clients on one loop, and one round trip for comparison."""
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
    async with lockfast.AsyncLocks(url) as one, lockfast.AsyncLocks(url) as two:
        for _ in range(CYCLES):
            lease = await one.lock("ball").acquire()
            waiting = asyncio.create_task(_taken(two))
            while not (await one.inspect("ball")).line:  # noqa: ASYNC110 - no event to await
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


async def _taken(locks: lockfast.AsyncLocks) -> float:
    async with locks.lock("ball"):
        return time.perf_counter()


if __name__ == "__main__":
    main()
