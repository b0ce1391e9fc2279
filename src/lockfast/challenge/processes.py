"""Stopping processes and ending them, and knowing that they have."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from lockfast.challenge.eventually import eventually

if TYPE_CHECKING:
    import subprocess


def freeze(process: subprocess.Popen[bytes]) -> None:
    """Come back when all its threads stand still: the signal alone lets some finish a request."""
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)


def freeze_family(process: subprocess.Popen[bytes]) -> None:
    """Freeze a process and all that descend from it: some servers have one for each client."""
    freeze(process)
    # The parent first: it has no more of them from now on. A child may still have had some.
    frozen = {process.pid}
    while born := set(family(process.pid)) - frozen:
        signal_all(born, signal.SIGSTOP)
        eventually(partial(_all_stand_still, born), what="its children stand still")
        frozen |= born


def thaw_family(process: subprocess.Popen[bytes]) -> None:
    """Let all of them run again."""
    signal_all(family(process.pid), signal.SIGCONT)


def family(pid: int) -> list[int]:
    """Return a process and all that descend from it, whatever session they are in."""
    found = [pid]
    for one in found:
        with suppress(OSError):  # gone meanwhile
            for task in Path(f"/proc/{one}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
    return found


def signal_all(pids: list[int] | set[int], number: signal.Signals) -> None:
    """Send it to each that is still there."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _all_stand_still(pids: set[int]) -> bool:
    return all(map(_stands_still, pids))


def _stands_still(pid: int) -> bool:
    """Whether no thread of it runs; so too if it has gone."""
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            state = (task / "stat").read_text().rpartition(")")[2].split()[0]
            if state not in "TtZX":
                return False
    return True


def is_dead(pid: int) -> bool:
    """Whether nothing of the process runs, be it reaped or not."""
    try:
        # A process whose first thread is dead already shows as a zombie, while the others
        # still hold its files open.
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
    except FileNotFoundError:
        return True
    return state_of(pid) in ("gone", "Z") and len(tasks) <= 1


def state_of(pid: int) -> str:
    """Return the letter that ps shows, or "gone"."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return "gone"
    return stat.rpartition(")")[2].split()[0]
