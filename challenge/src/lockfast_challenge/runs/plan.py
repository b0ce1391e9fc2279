"""What each name of a run is for: its workload, and how long its leases last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockfast_challenge.outcome import WORKLOADS

if TYPE_CHECKING:
    from lockfast_challenge.outcome import Setting, Workload

LONG_LEASE_UNIT = 1.25
"""How much longer faults last under long leases: longer than the window of a pushed grant."""


@dataclass(frozen=True, slots=True)
class ContestPlan:
    """What the clients of one name do."""

    number: int
    name: str
    """The name they contend for; no other user of the store has it."""
    workload_name: str
    ttl: float
    unit: float
    """The length in seconds of what the schedule calls one ttl.

    It is shorter than the ttl of long leases, because a fault of them has to outlast the window of
    a grant, and not the whole lease.
    """

    @property
    def workload(self) -> Workload:
        """What its clients do, in figures."""
        return WORKLOADS[self.workload_name]

    @property
    def longest_turn(self) -> float:
        """The longest time for which a client may wait and then work, in seconds."""
        return 1.0 + (3.0 + self.workload.longest) * self.ttl


def plans(setting: Setting, *, name: str) -> list[ContestPlan]:
    """Return the plan of each contest; their names begin with `name`."""
    found = []
    for number in range(setting.names):
        workload = setting.workload_of(number)
        lease = WORKLOADS[workload].lease
        found.append(
            ContestPlan(
                number=number,
                name=f"{name}-{number}" if setting.names > 1 else name,
                workload_name=workload,
                ttl=lease * setting.ttl,
                unit=setting.ttl * (LONG_LEASE_UNIT if lease > 1.0 else 1.0),
            )
        )
    return found
