"""How the tests are divided among workers: what stays together, and what has to begin early.

Each worker has servers of its own, which its tests share: some break them, or change their
settings. So the tests of a file stay on one worker, in their order.

Several runs on one machine share its processors, and a test may not notice. So all of them
together run no more tests at once than one alone would, whoever has started them.
"""

from __future__ import annotations

import os
import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import IO

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from holdfast.platforms import here

WORKERS_PER_CORE = 5
"""Most tests wait most of the time, for a lease to end or for a server to come back: of each second
that they take, they compute a quarter."""

MOST_WORKERS = 12
"""More would not be faster: the longest file is then what the run waits for."""

ALONE = (
    "tests/cli/",
    "tests/interrupts/test_interrupts.py",
    "tests/backends/memory/test_contract.py",
    "tests/backends/sqlite/test_contract.py",
    "tests/backends/sqlite/test_leaks.py",
    "tests/backends/test_stock.py",
    "tests/fencing/test_stock.py",
    "tests/challenge/test_defects.py",
    "tests/challenge/test_running.py",
    "tests/challenge/test_broken_locks.py",
)
"""Where every test has a store of its own, or names of its own: these are handed out one by one."""

BY_CLASS = (
    "tests/backends/redlock/contract/test_two_hung.py",
    "tests/challenge/deployments/test_own_servers.py",
)
"""What waits so long that one worker would be at it when all others are done."""

EARLY = (
    # Before others have failed in the same worker, whose threads go on: Hypothesis minds them.
    "tests/core/",
    "tests/challenge/test_checker.py",
    # Minutes of waiting, while others compute.
    "tests/backends/redlock/contract/test_two_hung.py",
    "tests/backends/test_stock.py",
    "tests/fencing/test_stock.py",
    "tests/sql_rows/",
    "tests/browser/",
    "tests/examples/",
    "tests/interrupts/test_interrupts.py",
    "tests/backends/mysql/test_contract.py",
    "tests/backends/mysql/test_contract_lent.py",
    "tests/backends/redlock/contract/test_two_silent.py",
    "tests/shell/test_virtual_time.py",
    "tests/backends/zookeeper/contract/test_ensemble.py",
    "tests/backends/etcd/contract/",
    "tests/backends/etcd/faults/",
    "tests/backends/zookeeper/faults/test_members.py",
    "tests/backends/memcached/test_contract.py",
    # One file, which was the last to end on Python 3.13.
    "tests/backends/sqlite/test_interrupts.py",
    "tests/backends/sqlite/test_contract.py",
    "tests/backends/zookeeper/contract/",
    "tests/backends/postgresql/contract/",
    "tests/backends/sql/advisory/",
    "tests/backends/redlock/contract/",
    "tests/backends/redis/contract/",
    "tests/contract/",
    "tests/backends/zookeeper/faults/",
    "tests/backends/mysql/",
    "tests/backends/sqlite/",
    "tests/backends/postgresql/",
    "tests/backends/memcached/",
    "tests/programs/",
    "tests/cli/test_challenge.py",
    "tests/challenge/test_defects.py",
    "tests/challenge/test_broken_locks.py",
    "tests/challenge/test_running.py",
    "tests/backends/redlock/",
    "tests/backends/redis/faults/",
    "tests/backends/redis/topologies/",
    "tests/challenge/deployments/test_own_servers.py",
    "tests/backends/redis/test_script_costs.py",
    "tests/fencing/test_frozen_holder.py",
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
        if nodeid.startswith(ALONE):
            return nodeid
        end = nodeid.rindex if nodeid.startswith(BY_CLASS) else nodeid.index
        return nodeid[: end("::")]

    def _assign_work_unit(self, node: WorkerController) -> None:
        longest = min(self.workqueue, key=self._rank)
        self.workqueue.move_to_end(longest, last=False)
        super()._assign_work_unit(node)

    def _rank(self, scope: str) -> tuple[int, int]:
        """Return what is smallest for the longest; the rest go by their number of tests."""
        return place_of(scope), -len(self.workqueue[scope])


@cache
def place_of(scope: str) -> int:
    """Return where it stands among those that take longest; all others come after them."""
    places = (place for place, start in enumerate(EARLY) if scope.startswith(start))
    return next(places, len(EARLY))


SEATED = "HOLDFAST_TEST_HAS_A_SEAT"


@contextmanager
def a_seat() -> Iterator[None]:
    """Run one test at a time in one of the machine's seats; wait until one is free.

    A seat is a lock on a file, which the kernel takes back from a worker that was killed. Tests
    that a test runs sit on its seat.
    """
    if SEATED in os.environ:
        yield
        return
    with free_seat() as seat:
        os.environ[SEATED] = "1"
        try:
            yield
        finally:
            del os.environ[SEATED]
            # Said, not only closed: a child that the test has forked has the file open as well.
            here.unlock(seat)


def free_seat() -> IO[str]:
    """Return a seat that nobody else has until it is closed."""
    folder = Path(tempfile.gettempdir()) / f"holdfast-tests-{_user()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    numbers = list(range(number_of_workers()))
    while True:
        random.shuffle(numbers)
        for number in numbers:
            seat = (folder / f"seat-{number}").open("w")
            if here.try_lock_alone(seat):
                return seat
            seat.close()
        time.sleep(0.02)


def _user() -> int:
    """Return whose seats they are; on Windows the folder is of one user alone."""
    return os.getuid() if here.IS_POSIX else 0
