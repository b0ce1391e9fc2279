"""Directories of a run, and a watcher process that outlives the run and cleans them up.

A run that is killed, or ended by a signal that it does not handle, stops none of its servers. The
servers die with the run, but their children do not: a child that a fault has frozen would never
notice the end of the run, and would stay for ever. Such processes are found by their working
directory. The run starts this file as a program, which needs only the standard library.
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

KILL_SECONDS = 10.0
"""How long the watcher keeps killing, in seconds; a process that survives that cannot be killed."""


def run_directory(prefix: str) -> Path:
    """Return a new directory, which is removed after the run at the latest.

    Processes that still work in the directory are killed then.
    """
    directory = Path(tempfile.mkdtemp(prefix=prefix))
    directory_list = _watcher().stdin
    if directory_list is not None:
        with suppress(BrokenPipeError):  # the watcher was killed, so continue without it
            os.write(directory_list.fileno(), f"{directory}\n".encode())
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
    # The watcher ends after the exit handlers of everything that uses a directory, because these
    # handlers are registered later.
    atexit.register(watcher.communicate)
    return watcher


def main(parent: int) -> None:
    """Wait for the end of the run, and clean up the directories that it named."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    directory_list = b""
    # A child that the run has forked may keep our input open for longer than the run. So the wait
    # also ends once the run is dead and everything that it wrote has been read.
    while select.select([0], [], [], 1.0)[0] or os.getppid() == parent:
        if select.select([0], [], [], 0.0)[0]:
            words = os.read(0, 65536)
            if not words:
                break
            directory_list += words
    clear({Path(os.fsdecode(line)) for line in directory_list.splitlines()})


def clear(directories: set[Path]) -> None:
    """Delete these directories, after killing all processes that work in them, frozen or not."""
    deadline = time.monotonic() + KILL_SECONDS
    while (pids := working_in(directories)) and time.monotonic() < deadline:
        for pid in pids:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
    for directory in directories:
        shutil.rmtree(directory, ignore_errors=True)


def working_in(directories: set[Path]) -> list[int]:
    """Return the processes whose working directory is one of these directories, or inside one."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # the process is gone, dead, or another user's
            where = Path(str((process / "cwd").readlink()).removesuffix(" (deleted)"))
            if not directories.isdisjoint((where, *where.parents)):
                found.append(int(process.name))
    return found


if __name__ == "__main__":
    main(int(sys.argv[1]))
