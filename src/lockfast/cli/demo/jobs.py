"""Demo: two instances pick the same job. As a program, this file is one of the two."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from lockfast.cli.demo.command import Play, Span
from lockfast.cli.demo.crew import played, send_message, wait_for_director, worker_client

NAME = "jobs"
TITLE = "The same job picked twice"
TEXT = (
    "Two instances of one service go through the same 30 jobs that are due. Each looks "
    "whether a job was done, and if not, does it."
)
CODE = """\
if lease := locks.lock(f"job:{job}").try_acquire():
    with lease:
        if not is_done(job):
            do(job)"""

JOBS = 30
EFFORT = 0.015
INSTANCES = ["instance A", "instance B"]


def play(url: str | None, *, guarded: bool) -> Play:
    """Let two processes do the jobs; count how often each was done."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = [folder, f"job-{os.getpid()}", "guarded" if guarded else ""]
        done, seconds = played(__name__, INSTANCES, arguments, url=url)
    times = Counter(each["job"] for _, each in done)
    duplicates = len(done) - len(times)
    undone = JOBS - len(times)
    return Play(
        NAME,
        guarded,
        seconds,
        verdict=_verdict(duplicates, undone),
        is_right=duplicates == 0 and undone == 0,
        duplicates=duplicates,
        spans=tuple(
            Span(who, one["begin"], one["end"], f"{one['job']:02}", is_wrong=times[one["job"]] > 1)
            for who, one in sorted(done, key=lambda each: each[1]["begin"])
        ),
        zoom=10,
    )


def _verdict(duplicates: int, undone: int) -> str:
    if undone:
        return f"{undone} of {JOBS} jobs never done"
    if duplicates:
        return f"{duplicates} of {JOBS} jobs done twice"
    return f"{JOBS} jobs, each done once"


def is_done(folder: Path, job: int) -> bool:
    """Whether the job is marked as done."""
    return (folder / f"{job}.done").exists()


def do(folder: Path, job: int) -> None:
    """Do the job, report that it was done, and mark it as done."""
    begin = time.monotonic()
    time.sleep(EFFORT)  # stands for sending an email
    send_message("done", job=job, begin=begin, end=time.monotonic())
    (folder / f"{job}.done").touch()


def work(me: str, folder: Path, name: str, *, guarded: bool) -> None:
    """Go through all jobs."""
    with worker_client(me) as locks:
        send_message("ready")
        wait_for_director()
        for job in range(1, JOBS + 1):
            if not guarded:
                if not is_done(folder, job):
                    do(folder, job)
            elif lease := locks.lock(f"{name}:{job}").try_acquire():
                with lease:
                    if not is_done(folder, job):
                        do(folder, job)


if __name__ == "__main__":
    work(sys.argv[1], Path(sys.argv[2]), sys.argv[3], guarded=bool(sys.argv[4]))
