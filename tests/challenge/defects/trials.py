"""For each fixed defect, a run that finds it, and the same run with the fix."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lockfast_challenge.faults.fault import Deployment
from lockfast_challenge.outcome import Kind, Outcome, Setting
from lockfast_challenge.runs.run import LOCKFAST, run


@dataclass(frozen=True)
class Trial:
    """A run of at most this many seconds, and the kind of finding that reveals the defect."""

    store: str
    tells: Kind
    seconds: float
    faults: tuple[str, ...] = ()
    clients: int = 4
    workload: str = "lock"
    ttl: float = 1.0
    mended: str = LOCKFAST[0]
    """The contender that differs from the defective one only by the fix."""


TRIALS = {
    "deposed_leader": Trial(
        "zookeeper", "overlap", 45.0, faults=("leader-cut",), workload="slow-lock", ttl=1.5
    ),
    "interrupted": Trial(
        "sqlite",
        "crash",
        10.0,
        faults=("holder-interrupted",),
        clients=2,
        workload="short-lock",
        mended="challenge.defects.interrupted:KeptLocks",
    ),
    "deaf_waiters": Trial("redis", "stall", 45.0, faults=("waiter-refused",)),
    "cancelled_background": Trial(
        "sqlite",
        "stall",
        8.0,
        clients=1,
        workload="slow-lock",
        mended="challenge.defects.cancelled_background:CancelsAll",
    ),
    "starved_renewals": Trial(
        "sqlite",
        "stall",
        90.0,
        clients=1,
        workload="slow-lock",
        ttl=0.5,
        mended="challenge.defects.starved_renewals:Crowded",
    ),
    "leaked_descriptors": Trial(
        "sqlite", "left behind", 8.0, clients=2, workload="semaphore", ttl=0.4
    ),
}


def play(
    name: str,
    deployment: Deployment,
    folder: Path,
    *,
    seed: int = 1,
    is_mended: bool = False,
    seconds: float | None = None,
) -> Outcome:
    """Return the outcome of a run, with the defect or the fix; the first finding ends it."""
    trial = TRIALS[name]
    setting = Setting(
        trial.store,
        "lockfast" if is_mended else name,
        trial.workload,
        trial.clients,
        seed,
        trial.seconds if seconds is None else seconds,
        trial.ttl,
        trial.faults,
    )
    make = trial.mended if is_mended else f"challenge.defects.{name}:Contender"
    return run(setting, deployment, make=make, folder=folder, stops_at_first=True)
