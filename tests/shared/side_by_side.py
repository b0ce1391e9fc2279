"""How the tests are divided among workers: what stays together, and what has to begin early.

Each worker has servers of its own, which its tests share: some break them, or change their
settings. So the tests of a file stay on one worker, in their order.
"""

from __future__ import annotations

import os

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

WORKERS_PER_CORE = 3
"""Most tests wait most of the time, for a lease to end or for a server to come back."""

MOST_WORKERS = 12
"""More would not be faster: the longest file is then what the run waits for."""

ALONE = ("tests/cli/", "tests/backends/sqlite/test_leaks.py")
"""Where every test has a store of its own: these are handed out one by one."""

EARLY = (
    # Before others have failed in the same worker, whose threads go on: Hypothesis minds them.
    "tests/core/",
    "tests/backends/sqlite/test_leaks.py::test_a_million_names",
    "tests/examples/",
    "tests/shell/test_virtual_time.py",
    "tests/backends/zookeeper/contract/test_ensemble.py",
    "tests/backends/zookeeper/faults/test_members.py",
    "tests/backends/mysql/test_contract.py",
    "tests/backends/sqlite/test_contract.py",
    "tests/backends/zookeeper/contract/",
    "tests/backends/postgresql/contract/",
    "tests/backends/redis/contract/",
    "tests/contract/",
    "tests/backends/zookeeper/faults/",
    "tests/backends/mysql/",
    "tests/backends/sqlite/",
    "tests/backends/postgresql/faults/",
    "tests/backends/redis/faults/",
    "tests/backends/redis/topologies/",
    "tests/backends/redis/test_script_costs.py",
    "tests/cli/test_demo.py",
    "tests/tools/test_new_store.py",
    "tests/docs/",
)
"""In this order what takes longest; left to the end, it would run while all others are done."""


def number_of_workers() -> int:
    """Return how many suit this machine."""
    return min(MOST_WORKERS, WORKERS_PER_CORE * (os.cpu_count() or 1))


class LongestFirst(LoadScopeScheduling):
    """Hands out whole files, or single tests of files that say so, the longest first."""

    def _split_scope(self, nodeid: str) -> str:
        return nodeid if nodeid.startswith(ALONE) else nodeid.partition("::")[0]

    def _assign_work_unit(self, node: WorkerController) -> None:
        longest = min(self.workqueue, key=self._rank)
        self.workqueue.move_to_end(longest, last=False)
        super()._assign_work_unit(node)

    def _rank(self, scope: str) -> tuple[int, int]:
        """Return what is smallest for the longest; the rest go by their number of tests."""
        places = (place for place, start in enumerate(EARLY) if scope.startswith(start))
        return next(places, len(EARLY)), -len(self.workqueue[scope])
