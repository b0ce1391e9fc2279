"""Runs the schedule that finds a flaw, against the lock with the flaw or against its control."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockfast_challenge.broken.deployments import FlawedFailover, FlawedServer, ForgetfulNodes
from lockfast_challenge.outcome import Setting
from lockfast_challenge.runs.run import GRANT_BOUND_SECONDS, Enough, RunProgress, run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lockfast_challenge.broken.registry import Flaw
    from lockfast_challenge.deployments.own_servers import OwnServers
    from lockfast_challenge.outcome import Outcome

DEPLOYMENTS: dict[str, type[OwnServers]] = {
    "redis": FlawedServer,
    "replicated": FlawedFailover,
    "redlock": ForgetfulNodes,
}

STALL_BOUND_SECONDS, BRIEF_BOUND_SECONDS = 1.0, 0.1
"""Values of `bound`, in seconds.

The first is for a flaw that causes a stall. The second is for all other flaws, which no quiet
stretch would show.
"""


def caught(flaw: Flaw, seed: int, *, within: float, folder: Path) -> Outcome:
    """Run the broken lock until the first finding of the flaw's kind; return the outcome."""

    def until_found(progress: RunProgress) -> None:
        if flaw.kind in progress.wrong or progress.seconds > within:
            raise Enough

    # Such a short bound cannot separate clients that wait forever from slow clients. The control's
    # run can, because it has the full bound.
    bound = STALL_BOUND_SECONDS if flaw.kind == "stall" else BRIEF_BOUND_SECONDS
    return _run_lock(
        flaw, flaw.lock, seed, seconds=within, folder=folder, progress=until_found, bound=bound
    )


def spared(flaw: Flaw, seed: int, *, seconds: float, folder: Path) -> Outcome:
    """Run the control on the same schedule, which ends with a quiet stretch; return the outcome."""
    return _run_lock(flaw, flaw.control, seed, seconds=seconds, folder=folder)


def spared_once(flaw: Flaw, seed: int, *, grants: int, within: float, folder: Path) -> Outcome:
    """Run the control until one kind of fault has struck and the lock was granted often enough."""

    def once(progress: RunProgress) -> None:
        has_struck = progress.strikes or not flaw.schedule.faults
        if has_struck and progress.doing == "quiet" and progress.grants >= grants:
            raise Enough

    return _run_lock(flaw, flaw.control, seed, seconds=within, folder=folder, progress=once)


def _run_lock(
    flaw: Flaw,
    lock: str,
    seed: int,
    *,
    seconds: float,
    folder: Path,
    progress: Callable[[RunProgress], None] | None = None,
    bound: float = GRANT_BOUND_SECONDS,
) -> Outcome:
    schedule = flaw.schedule
    setting = Setting(
        store=schedule.store,
        lock=lock.rpartition(":")[2],
        workload=schedule.workload,
        clients=schedule.clients,
        seed=seed,
        seconds=seconds,
        ttl=schedule.ttl,
        faults=schedule.faults,
    )
    with DEPLOYMENTS[schedule.store](ttl=schedule.ttl) as deployment:
        return run(
            setting,
            deployment,
            folder=folder,
            make=lock,
            progress=progress,
            clocks_ahead=schedule.clocks_ahead,
            bound=bound,
        )
