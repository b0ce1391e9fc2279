"""The time to list ten thousand locks: with the command, and with the library."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import lockfast
from bench.measuring import machine
from bench.reporting import Report
from bench.waiting import STORES

LOCKS = 10_000
TIMES = 7


def main() -> Report:
    """Run the suite."""
    report = Report("listing", "Ten thousand locks, listed")
    report.say(
        f"{machine()}. {LOCKS:,} names are held, and listed {TIMES} times, with all that is told "
        "of each: by `lockfast ls` into a pipe, the start of the program included, and by "
        "`survey()`. Where the processor's time is much less than the time by the clock, the "
        "machine had other things to do. `python -m bench listing` repeats it."
    )
    rows = []
    for store, opened in STORES.items():
        with opened() as url, lockfast.Locks(url, ttl=3600) as locks:
            for number in range(LOCKS):
                locks.lock(f"order:{number:06}", renew=False).acquire()
            command = [sys.executable, "-m", "lockfast", "ls", "--url", url]
            rows += [
                _measured(store, "lockfast ls", lambda: _run(command)),  # noqa: B023 - called here
                _measured(
                    store,
                    "lockfast ls --json",
                    lambda: _run([*command, "--json"]),  # noqa: B023 - as above
                ),
                _measured(store, "survey()", lambda: list(locks.survey())),
            ]
            assert len(list(locks.survey())) == LOCKS
    report.table("Seconds", ("what", "median", "fastest", "of the processor"), rows)
    return report


def _measured(store: str, what: str, do: Callable[[], object]) -> list[str]:
    spans, worked = [], []
    for _ in range(TIMES):
        began, before = time.perf_counter(), os.times()
        do()
        spans.append(time.perf_counter() - began)
        after = os.times()
        worked.append(sum(after[:4]) - sum(before[:4]))
    figures = (statistics.median(spans), min(spans), statistics.median(worked))
    return [f"{store}: {what}", *(f"{one:.2f}" for one in figures)]


def _run(command: list[str]) -> None:
    listed = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    assert len(listed.stdout.splitlines()) > LOCKS


if __name__ == "__main__":
    main()
