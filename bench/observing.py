"""Measures the cost of events: an uncontended cycle on Redis, with and without hooks."""

from __future__ import annotations

import asyncio
import gc
import statistics
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import NoOpTracerProvider
from prometheus_client import CollectorRegistry

import lockfast
from bench.measuring import cycle_of, load, machine
from bench.pairing import Contestant, Paired, paired
from bench.redis_server import running
from bench.reporting import Report
from lockfast import observe

ROUNDS, PAIRS, CYCLES = 50, 4, 250
OFF = "no hook"
HEAD = ("", "µs", "of the processor", "ratio", "ratio, of the processor")


def main() -> Report:
    """Run the suite."""
    report = Report("observing", "The cost of being told, measured")
    packages = ("prometheus-client", "opentelemetry-sdk")
    versions = ", ".join(f"{one} {version(one)}" for one in packages)
    report.say(
        f"{versions}; {machine()}, {load()}. A client with a hook takes a lock on Redis and gives "
        f"it back {CYCLES} times, and right before or after it one without a hook does the same; "
        "what the hook does beside the work is counted in. The ratio is the median of "
        f"{ROUNDS * PAIRS} such pairs, and in brackets is the range in which it lies with 95 % "
        'certainty. "No hook, once more" compares two clients without hooks: it shows what can be '
        "told apart here. `python -m bench observing` repeats it."
    )
    with running() as port:
        url = f"redis://127.0.0.1:{port}"
        for title, contestants in (("Sync", _sync), ("asyncio, one task", _tasks)):
            found, close = contestants(url)
            report.table(title, HEAD, _rows(_measured(found)))
            close()
    return report


def _measured(contestants: dict[str, Contestant]) -> dict[str, Paired]:
    off = contestants[OFF]
    found = {name: Paired() for name in contestants if name != OFF}
    for one in contestants.values():
        one.run(CYCLES)  # connect and fill caches
        one.rest()
    gc.collect()
    for _ in range(ROUNDS):
        for name, into in found.items():
            paired(contestants[name], off, pairs=PAIRS, cycles=CYCLES, into=into)
    return found


def _rows(found: dict[str, Paired]) -> list[list[str]]:
    return [
        [
            name,
            f"{statistics.median(one.seconds) * 1e6:.1f}",
            f"{statistics.median(one.cpu) * 1e6:.1f}",
            str(one.passed),
            str(one.worked),
        ]
        for name, one in found.items()
    ]


def _hooks() -> dict[str, object]:
    def metrics() -> MeterProvider:
        return MeterProvider([InMemoryMetricReader()], shutdown_on_exit=False)

    return {
        OFF: None,
        "no hook, once more": None,
        "a hook that does nothing": lambda _: None,
        "prometheus()": observe.prometheus(registry=CollectorRegistry()),
        "Advisor()": observe.Advisor(),
        "opentelemetry(), metrics alone": observe.opentelemetry(
            tracer_provider=NoOpTracerProvider(), meter_provider=metrics()
        ),
        "opentelemetry(), spans dropped": observe.opentelemetry(
            tracer_provider=TracerProvider(shutdown_on_exit=False), meter_provider=metrics()
        ),
    }


def _deliveries(client: object) -> list[Any]:
    return [one for _, one in client._client.dispatcher._hooks]  # type: ignore[attr-defined]


Contestants = tuple[dict[str, Contestant], Callable[[], None]]


def _sync(url: str) -> Contestants:
    clients = {name: lockfast.Locks(url, on_event=hook) for name, hook in _hooks().items()}  # type: ignore[arg-type]

    def close() -> None:
        for one in clients.values():
            one.close()

    def contestant(client: lockfast.Locks) -> Contestant:
        turns, deliveries = cycle_of(client.lock("order:17")), _deliveries(client)

        def run(cycles: int) -> None:
            turns(cycles)
            for one in deliveries:  # the delivery of queued events is part of the cost
                one._deliver(one._pending)

        def rest() -> None:
            while not all(one._needs_waking for one in deliveries):
                time.sleep(0.001)

        return Contestant(run, rest)

    return {name: contestant(one) for name, one in clients.items()}, close


def _tasks(url: str) -> Contestants:
    runner = asyncio.Runner()
    clients = {name: lockfast.AsyncLocks(url, on_event=hook) for name, hook in _hooks().items()}  # type: ignore[arg-type]

    def contestant(client: lockfast.AsyncLocks) -> Contestant:
        lock, deliveries = client.lock("order:17"), _deliveries(client)

        async def turns(cycles: int) -> None:
            for _ in range(cycles):
                async with lock:
                    pass
            for one in deliveries:  # as above
                await one._deliver(one._pending)

        async def rest() -> None:
            while not all(one._needs_waking for one in deliveries):  # noqa: ASYNC110
                await asyncio.sleep(0.001)

        return Contestant(lambda cycles: runner.run(turns(cycles)), lambda: runner.run(rest()))

    def close() -> None:
        for one in clients.values():
            runner.run(one.aclose())
        runner.close()

    return {name: contestant(one) for name, one in clients.items()}, close
