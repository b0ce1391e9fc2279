"""Defects that Holdfast once had, each put back in the clients of a run alone.

That a run finds them says that it would have found them then. How many of so many seeds find each,
and how many find anything without it:

    python tests/challenge/mended.py 10
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1])]

from holdfast._sync.acquiring import Acquisition
from holdfast._sync.handle import Duty
from holdfast.backends.sessions.answers import Beat
from holdfast.backends.zookeeper._sync.wire import ZooKeeperWire
from holdfast.challenge.clients.holdfast_locks import SyncContender
from holdfast.challenge.deployments.choosing import own_servers
from holdfast.challenge.outcome import Outcome, Setting
from holdfast.challenge.running import HOLDFAST, run

SECONDS = 45.0


class InterruptsLeaveSomething(SyncContender):
    """What an interrupt struck between two lines is ended by nobody."""

    def __init__(self, url: str, **options: float) -> None:
        for owner in (Acquisition, Duty):
            del owner.__del__
        super().__init__(url, **options)


class DeposedLeaderIsBelieved(SyncContender):
    """Whoever answers proves the session, also a leader that is none any more."""

    def __init__(self, url: str, **options: float) -> None:
        beat = ZooKeeperWire.beat

        def unconfirmed(self: ZooKeeperWire, *, confirm: bool, deadline: float) -> Beat:
            del confirm
            answer = beat(self, confirm=False, deadline=deadline)
            return replace(answer, is_confirmed=True, proves_itself=True)

        wire: Any = ZooKeeperWire
        wire.beat = unconfirmed
        super().__init__(url, **options)


@dataclass(frozen=True)
class Defect:
    """What is put back, and what finds it."""

    contender: type[SyncContender]
    store: str
    workload: str
    ttl: float
    faults: tuple[str, ...]

    def tried(self, folder: Path, *, seed: int, is_mended: bool = False) -> Outcome:
        """Return what a run comes to, with it or without."""
        setting = Setting(
            self.store, "holdfast", self.workload, 4, seed, SECONDS, self.ttl, self.faults
        )
        make = HOLDFAST if is_mended else f"challenge.mended:{self.contender.__name__}"
        with own_servers(self.store, ttl=self.ttl) as deployment:
            return run(setting, deployment, make=make, folder=folder, stops_at_first=True)


DEFECTS = (
    Defect(
        InterruptsLeaveSomething, "redis", "lock", 1.0, ("holder-interrupted", "waiter-interrupted")
    ),
    Defect(DeposedLeaderIsBelieved, "zookeeper", "slow-lock", 1.5, ("leader-cut",)),
)


def main(seeds: int) -> None:
    for defect in DEFECTS:
        for is_mended in (False, True):
            took = []
            for seed in range(seeds):
                with tempfile.TemporaryDirectory() as folder:
                    outcome = defect.tried(Path(folder), seed=seed, is_mended=is_mended)
                if outcome.verdict == "invalid":
                    took.append(f"{outcome.ended - outcome.began:.0f}")
                    print(f"  seed {seed}: {outcome.findings[0].message}", flush=True)  # noqa: T201
            what = "mended" if is_mended else "put back"
            found = f"{defect.contender.__name__} {what}: found in {len(took)} of {seeds}"
            print(f"{found}, after {', '.join(took)} s" if took else found, flush=True)  # noqa: T201


if __name__ == "__main__":
    main(int(sys.argv[1]))
