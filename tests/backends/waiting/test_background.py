"""A background job outlives its errors, and says when it ends; in virtual time."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from virtual import virtual_clock

from lockfast.backends.waiting._async.background import (
    SETTLED_SECONDS,
    AsyncBackground,
    AsyncBackgroundRun,
)
from lockfast.errors import BackendUnavailable
from lockfast.testing import run_in_virtual_time


class Job:
    """Fails with the given errors, then works until it is stopped."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.failures: list[Exception] = []
        self.attempts: list[float] = []
        self.ends = 0
        self.background = AsyncBackground(
            self.work,
            name="lockfast-job",
            clock=virtual_clock(),
            failed=self.failed,
            ended=self.end,
        )

    async def work(self, run: AsyncBackgroundRun) -> bool:
        self.attempts.append(virtual_clock().now())
        if self.errors:
            raise self.errors.pop(0)
        await run.stopping.wait()
        return False

    async def failed(self, run: AsyncBackgroundRun, error: Exception) -> None:
        assert self.background.is_wanted(run)
        self.failures.append(error)

    def end(self) -> None:
        self.ends += 1


def test_a_job_outlives_its_errors_and_pauses_longer_each_time() -> None:
    async def main() -> None:
        errors = [BackendUnavailable("down"), ValueError("a bug"), OSError("no descriptors")]
        job = Job(*errors)

        assert job.background.is_running()
        run = job.background.current
        await asyncio.sleep(10)

        assert job.background.current is run
        assert job.failures == errors
        pauses = [b - a for a, b in zip(job.attempts, job.attempts[1:], strict=False)]
        assert all(one >= least for one, least in zip(pauses, (0.025, 0.05, 0.1), strict=True))
        await job.background.stop()
        assert job.ends == 1

    run_in_virtual_time(main())


def test_a_job_that_was_cancelled_says_so_and_is_started_again() -> None:
    async def main() -> None:
        job = Job()
        job.background.is_running()
        await asyncio.sleep(1)

        job.background.cancel()
        await asyncio.sleep(1)

        assert job.ends == 1
        assert job.background.current is None
        assert job.background.is_running()
        await asyncio.sleep(1)
        assert len(job.attempts) == 2
        await job.background.stop()

    run_in_virtual_time(main())


@pytest.mark.parametrize("waits", [True, False])
def test_a_job_ends_wherever_it_is_stopped(waits) -> None:
    """Neither a job at work nor one that pauses after an error outlives the stop."""

    async def main() -> None:
        job = Job(*([] if waits else [ValueError("a bug")] * 100))
        job.background.is_running()
        await asyncio.sleep(1)

        await asyncio.wait_for(job.background.stop(), 0.001)

        assert job.ends == 1
        assert job.background.current is None

    run_in_virtual_time(main())


def test_a_job_whose_work_ends_at_once_pauses_longer_each_time() -> None:
    """For example, a server that ends every subscription is not asked thousands of times."""

    async def main() -> None:
        attempts: list[float] = []

        async def work(_: AsyncBackgroundRun) -> bool:
            attempts.append(virtual_clock().now())
            await asyncio.sleep(SETTLED_SECONDS if len(attempts) == 5 else 0.001)
            return True

        background = AsyncBackground(work, name="lockfast-job", clock=virtual_clock())
        background.is_running()
        await asyncio.sleep(2.5 * SETTLED_SECONDS)

        pauses = [b - a for a, b in pairwise(attempts)]
        least = (0.025, 0.05, 0.1, 0.2)
        assert all(one >= other for one, other in zip(pauses, least, strict=False))
        assert pauses[4] == SETTLED_SECONDS  # it worked for long enough, so there is no pause
        await background.stop()

    run_in_virtual_time(main())
