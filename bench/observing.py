"""What it costs to be told: an uncontended cycle on Redis without hooks and with them."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from prometheus_client import CollectorRegistry

import holdfast
from bench.measuring import Timing, cycle_of, machine, timed
from bench.redis_server import running
from bench.reporting import Report
from holdfast import observe

ROUNDS, CYCLES = 21, 1000
OFF = "no hook"


def main() -> Report:
    """Run the suite."""
    report = Report("observing", "The cost of being told")
    packages = ("prometheus-client", "opentelemetry-sdk")
    versions = ", ".join(f"{one} {version(one)}" for one in packages)
    report.say(
        f"{versions}; {machine()}. One lock is taken and given back {CYCLES} times in each of "
        f"{ROUNDS} rounds, by clients that differ in their hooks alone, in turns. The ratio is the "
        "median of those of the rounds. `python -m bench observing` repeats it."
    )
    with running() as port:
        url = f"redis://127.0.0.1:{port}"
        for title, contestants in (("Sync", _sync), ("asyncio, one task", _tasks)):
            cycles, close = contestants(url)
            timings = timed(cycles, rounds=ROUNDS, cycles=CYCLES)
            close()
            report.table(title, ("", "µs", "of the processor", "ratio"), _rows(timings))
            gc.collect()
    return report


def _rows(timings: dict[str, Timing]) -> list[list[str]]:
    off = timings[OFF]
    return [
        [name, f"{one.seconds * 1e6:.1f}", f"{one.cpu * 1e6:.1f}", f"{one.over(off):.3f}"]
        for name, one in timings.items()
    ]


def _hurried(client: object) -> list[Any]:
    """Let the hooks hear of what waits now, not with the next round; return who delivers it."""
    deliveries = [one for _, one in client._client.telling._hooks]  # type: ignore[attr-defined]
    for one in deliveries:
        one._wake()
    return deliveries


def _drained(client: object) -> None:
    """Wait until the hooks have heard of everything: that belongs to the cost."""
    deliveries = _hurried(client)
    while any(one._pending for one in deliveries):
        time.sleep(0.0005)


def _hooks() -> dict[str, object]:
    return {
        OFF: None,
        "no hook, once more": None,
        "a hook that does nothing": lambda _: None,
        "prometheus()": observe.prometheus(registry=CollectorRegistry()),
        "opentelemetry(), spans dropped": observe.opentelemetry(
            tracer_provider=TracerProvider(shutdown_on_exit=False),
            meter_provider=MeterProvider([InMemoryMetricReader()], shutdown_on_exit=False),
        ),
    }


Contestants = tuple[dict[str, Callable[[int], None]], Callable[[], None]]


def _sync(url: str) -> Contestants:
    clients = {name: holdfast.Locks(url, on_event=hook) for name, hook in _hooks().items()}  # type: ignore[arg-type]

    def close() -> None:
        for one in clients.values():
            one.close()

    def cycle(client: holdfast.Locks) -> Callable[[int], None]:
        turns = cycle_of(client.lock("order:17"))

        def run(cycles: int) -> None:
            turns(cycles)
            _drained(client)

        return run

    return {name: cycle(one) for name, one in clients.items()}, close


def _tasks(url: str) -> Contestants:
    runner = asyncio.Runner()
    clients = {name: holdfast.AsyncLocks(url, on_event=hook) for name, hook in _hooks().items()}  # type: ignore[arg-type]

    def cycle(client: holdfast.AsyncLocks) -> Callable[[int], None]:
        lock = client.lock("order:17")

        async def turns(cycles: int) -> None:
            for _ in range(cycles):
                async with lock:
                    pass
            deliveries = _hurried(client)  # as `_drained`
            while any(one._pending for one in deliveries):  # noqa: ASYNC110
                await asyncio.sleep(0.0005)

        return lambda cycles: runner.run(turns(cycles))

    def close() -> None:
        for one in clients.values():
            runner.run(one.aclose())
        runner.close()

    return {name: cycle(one) for name, one in clients.items()}, close
