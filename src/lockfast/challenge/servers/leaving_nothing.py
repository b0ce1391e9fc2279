"""Directories of a run, and a process of its own that outlives the run to end what it left there.

Whoever is killed, or ended by a signal that it does not take, stops nothing. Servers die with it,
but not their children: those that a fault has stopped would never notice, and stand there for ever.
They are known by where they work. The run starts this file as a program, which needs nothing but
what comes with Python.
"""

from __future__ import annotations

import atexit
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

GOING = 10.0
"""So many seconds it tries; what cannot be killed by then never can."""


def run_directory(prefix: str) -> Path:
    """Return a new directory that is gone after the run at the latest, with all who work in it."""
    directory = Path(tempfile.mkdtemp(prefix=prefix))
    told = _watcher().stdin
    if told is not None:
        with suppress(BrokenPipeError):  # somebody killed it; then it is as without it
            os.write(told.fileno(), f"{directory}\n".encode())
    return directory


@cache
def _watcher() -> subprocess.Popen[bytes]:
    watcher = subprocess.Popen(
        [sys.executable, "-I", "-S", __file__, str(os.getpid())],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
        cwd="/",
    )
    # After all who were given a directory, and have registered their own end later.
    atexit.register(watcher.communicate)
    return watcher


def main(parent: int) -> None:
    """Wait for the end of the run, and clear away what is left in the directories it named."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    told = b""
    # A child that the run has forked may have our input open for longer than the run: that it is
    # dead is the end too, once all is read that it wrote.
    while select.select([0], [], [], 1.0)[0] or os.getppid() == parent:
        if select.select([0], [], [], 0.0)[0]:
            words = os.read(0, 65536)
            if not words:
                break
            told += words
    clear({Path(os.fsdecode(line)) for line in told.splitlines()})


def clear(directories: set[Path]) -> None:
    """Kill all that work in these directories, stopped or not, and delete them."""
    deadline = time.monotonic() + GOING
    while (pids := working_in(directories)) and time.monotonic() < deadline:
        for pid in pids:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
    for directory in directories:
        shutil.rmtree(directory, ignore_errors=True)


def working_in(directories: set[Path]) -> list[int]:
    """Return the processes whose directory is one of these, or in one of them."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # gone meanwhile, dead, or somebody else's
            where = Path(str((process / "cwd").readlink()).removesuffix(" (deleted)"))
            if not directories.isdisjoint((where, *where.parents)):
                found.append(int(process.name))
    return found


if __name__ == "__main__":
    main(int(sys.argv[1]))
