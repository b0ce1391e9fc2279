"""What clients do while they hold, and what is behind the lock.

Only what is behind the token check must survive whatever happens: a holder that was frozen between
its last look at the lease and its write comes too late by any lock (Jepsen's tests of etcd have the
same three).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lockfast.model import ALL


@dataclass(frozen=True, slots=True)
class Workload:
    """One of them."""

    kind: Literal["lock", "counter", "set", "read-write", "semaphore"]
    is_guarded: bool = False
    """Whether the resource refuses a token below one that it has seen."""
    longest: float = 2.0
    """How long the longest turn works, in ttls."""
    capacity: int = 1
    short: float = 0.2
    """How long all others work at most, in ttls."""
    long: float = 0.15
    """How many turns work for longer than their ttl may last: who does not renew is found so."""

    @property
    def writes(self) -> bool:
        """Whether there is a resource."""
        return self.kind in {"counter", "set"}


WORKLOADS = {
    "lock": Workload("lock"),
    "long-lock": Workload("lock", long=1.0),
    "short-lock": Workload("lock", long=0.0, short=0.02),
    "counter": Workload("counter"),
    "set": Workload("set"),
    "guarded-counter": Workload("counter", is_guarded=True),
    "guarded-set": Workload("set", is_guarded=True),
    "read-write": Workload("read-write", capacity=ALL),
    "semaphore": Workload("semaphore", capacity=2),
    # Held through an election: only so can a deposed leader keep a holder in the dark.
    "slow-lock": Workload("lock", long=0.8, longest=4.0),
}
"""By the name that `--workload` takes."""
