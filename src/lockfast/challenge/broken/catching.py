"""Running the schedule that finds a flaw, against the lock that has it or the one that has not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockfast.challenge.broken.forgetful_nodes import ForgetfulNodes
from lockfast.challenge.broken.one_server import OneServer
from lockfast.challenge.broken.replicated import Replicated
from lockfast.challenge.outcome import Setting
from lockfast.challenge.running import BOUND, Enough, Progress, run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lockfast.challenge.broken.registry import Flaw
    from lockfast.challenge.deployments.own import OwnServers
    from lockfast.challenge.outcome import Outcome

DEPLOYMENTS: dict[str, type[OwnServers]] = {
    "redis": OneServer,
    "replicated": Replicated,
    "redlock": ForgetfulNodes,
}

SHORT, BRIEF = 1.0, 0.1
"""How long it is quiet, after a ttl: where a stall is looked for, and where nothing is found so."""


def caught(flaw: Flaw, seed: int, *, within: float, folder: Path) -> Outcome:
    """Return what became of the broken lock; the run ends with the first finding of its kind."""

    def until_found(progress: Progress) -> None:
        if flaw.kind in progress.wrong or progress.seconds > within:
            raise Enough

    # Who waits for ever is told from who waits long by the control, which has all the time.
    bound = SHORT if flaw.kind == "stall" else BRIEF
    return _played(
        flaw, flaw.lock, seed, seconds=within, folder=folder, progress=until_found, bound=bound
    )


def spared(flaw: Flaw, seed: int, *, seconds: float, folder: Path) -> Outcome:
    """Return what became of the control in the same schedule, with a quiet stretch at its end."""
    return _played(flaw, flaw.control, seed, seconds=seconds, folder=folder)


def spared_once(flaw: Flaw, seed: int, *, grants: int, within: float, folder: Path) -> Outcome:
    """Return what became of the control after one kind has struck, as soon as some came in."""

    def once(progress: Progress) -> None:
        if progress.doing == "quiet" and progress.grants >= grants:
            raise Enough

    return _played(flaw, flaw.control, seed, seconds=within, folder=folder, progress=once)


def _played(
    flaw: Flaw,
    lock: str,
    seed: int,
    *,
    seconds: float,
    folder: Path,
    progress: Callable[[Progress], None] | None = None,
    bound: float = BOUND,
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
