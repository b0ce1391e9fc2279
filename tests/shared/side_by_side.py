"""How the tests are divided among workers: what stays together, and what has to start early.

Each worker has its own servers, which its tests share: some break them, or change their settings.
So the tests of a file stay on one worker, in order.

Several runs on one machine share its processors, and no test may depend on that. So all runs
together execute fewer tests at once than one alone would: the servers of waiting runs need some
processor time too.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import IO

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from lockfast.platforms import here

WORKERS_PER_CORE = 3
"""Most tests spend most of their time waiting, for a lease to end or for a server to come back.
With four workers, two processors were busy for 88 % of the run, and a test in 6,000 failed because
the machine stalled. Each further worker collects the tests and starts its servers once more."""

MOST_WORKERS = 12
"""More would not be faster: the run then waits for the longest file."""

SEATS_PER_RUN = 2
"""How many fewer tests run at once in total, for each run after the first."""

FEWEST_SEATS = 4

MOST_RUNS = 32
"""Maximum number of runs that count."""

SEAT_POLL_SECONDS = (0.02, 0.25)
"""First and longest pause between two checks for a free seat, in seconds: dozens of workers check.
"""

ALONE = (
    "tests/cli/",
    "tests/interrupts/test_interrupts.py",
    "tests/backends/memory/test_contract.py",
    "tests/backends/sqlite/test_contract.py",
    "tests/backends/sqlite/test_leaks.py",
    "tests/backends/test_hostile_servers.py",
    "tests/backends/test_stock.py",
    "tests/fencing/test_stock.py",
    "tests/challenge/test_defects.py",
    "tests/challenge/test_running.py",
    "tests/challenge/test_broken_locks.py",
)
"""Files in which every test has its own store or names: the tests are handed out one by one."""

BY_CLASS = (
    "tests/backends/redlock/contract/test_two_hung.py",
    "tests/challenge/deployments/test_own_servers.py",
)
"""Files handed out class by class: they wait so long that one worker would still be running them
when all others are done."""

EARLY = (
    # Run these before other tests have failed in the same worker and left threads running, which
    # disturb Hypothesis.
    "tests/core/",
    "tests/challenge/test_checker.py",
    # These wait for minutes, while other tests compute.
    "tests/backends/redlock/contract/test_two_hung.py",
    "tests/backends/test_stock.py",
    "tests/fencing/test_stock.py",
    "tests/sql_rows/",
    "tests/browser/",
    "tests/examples/",
    "tests/interrupts/test_interrupts.py",
    "tests/backends/mysql/test_contract.py",
    "tests/backends/mysql/test_contract_mysql.py",
    "tests/backends/mysql/test_contract_lent.py",
    "tests/backends/test_talkative_servers.py",
    "tests/backends/test_hostile_servers.py",
    "tests/backends/redlock/contract/test_two_silent.py",
    "tests/shell/test_virtual_time.py",
    "tests/backends/zookeeper/contract/test_ensemble.py",
    "tests/backends/etcd/contract/",
    "tests/backends/etcd/faults/",
    "tests/backends/zookeeper/faults/test_members.py",
    "tests/backends/memcached/test_contract.py",
    # The next file was the last to finish on Python 3.13.
    "tests/backends/sqlite/test_interrupts.py",
    "tests/backends/sqlite/test_contract.py",
    "tests/backends/zookeeper/contract/",
    "tests/backends/postgresql/contract/",
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
    "tests/fencing/test_frozen_seal.py",
    "tests/cli/test_demo.py",
    "tests/tools/test_new_store.py",
    "tests/docs/",
)
"""The longest tests first; left to the end, they would run when all other tests are done."""


def number_of_workers() -> int:
    """Return the number of workers for this machine."""
    return min(MOST_WORKERS, WORKERS_PER_CORE * (os.cpu_count() or 1))


class LongestFirst(LoadScopeScheduling):
    """Hands out whole files, or single tests of the files in ALONE, the longest first."""

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
        """Return a sort key for the longest first: by place in EARLY, then by number of tests."""
        return place_of(scope), -len(self.workqueue[scope])


@cache
def place_of(scope: str) -> int:
    """Return the position in EARLY of a file or a test; anything not in EARLY comes after."""
    places = (place for place, start in enumerate(EARLY) if scope.startswith(start))
    return next(places, len(EARLY))


SEATED = "LOCKFAST_TEST_HAS_A_SEAT"


@contextmanager
def a_seat() -> Iterator[None]:
    """Run one test at a time in one of the machine's seats; wait until a seat is free.

    A seat is a lock on a file, which the kernel releases if a worker is killed. Tests that are run
    by a test use the outer test's seat.
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
            # Unlock explicitly: a child that the test has forked still has the file open.
            here.unlock(seat)


def free_seat() -> IO[str]:
    """Return a seat that is exclusively ours until it is closed."""
    pause, longest = SEAT_POLL_SECONDS
    while True:
        seat = _taken("seat", number_of_seats())
        if seat is not None:
            return seat
        time.sleep(pause)
        pause = min(1.5 * pause, longest)


def number_of_seats() -> int:
    """Return how many tests of all runs may run at once on this machine now."""
    others = max(0, _number_taken("run") - 1)
    alone = number_of_workers()
    return max(min(alone, FEWEST_SEATS), alone - SEATS_PER_RUN * others)


def take_part() -> IO[str] | None:
    """Register as a run on this machine until the file is closed; not for runs inside a test."""
    return None if SEATED in os.environ else _taken("run", MOST_RUNS)


def _taken(kind: str, number: int) -> IO[str] | None:
    """Return a file of this kind that is ours until it is closed, or None if all are taken."""
    for one in range(number):
        file = (_folder() / f"{kind}-{one}").open("w")
        if here.try_lock_exclusive(file):
            return file
        file.close()
    return None


def _number_taken(kind: str) -> int:
    """Return how many files of this kind are taken; a concurrent count may be included."""
    taken = 0
    for one in _folder().glob(f"{kind}-*"):
        with one.open("w") as file:
            taken += not here.try_lock_exclusive(file)
    return taken


def _folder() -> Path:
    folder = Path(tempfile.gettempdir()) / f"lockfast-tests-{_user()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _user() -> int:
    """Return the user who owns the seats; on Windows the temporary folder is per user."""
    return os.getuid() if here.IS_POSIX else 0
