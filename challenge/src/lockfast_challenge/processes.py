"""Stopping processes, and waiting for conditions."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable


# Waits for a condition instead of sleeping for a fixed time.

EVENTUALLY_SECONDS = 60.0
"""Timeout for a condition, in seconds; a condition that is not true by then never becomes true."""

POLL_FIRST_SECONDS, POLL_LONGEST_SECONDS = 0.005, 0.05
"""First and longest pause between two polls, in seconds.

The pause grows because the polled server may be busy with the very thing that is awaited.
"""


class NeverHappened(AssertionError):
    """A condition did not become true in time, so whatever waited for it has failed."""


def eventually(
    has_happened: Callable[[], object],
    *,
    within: float = EVENTUALLY_SECONDS,
    what: str = "it has happened",
    despite: tuple[type[Exception], ...] = (),
) -> None:
    """Wait until the condition is true; fail if it never becomes true.

    `what` describes the condition in the failure message. `despite` lists the errors that mean "not
    yet", such as those of a server that is starting.
    """
    deadline, pause = time.monotonic() + within, POLL_FIRST_SECONDS
    while True:
        said = ""
        try:
            if has_happened():
                return
        except despite as error:
            said = f" ({error})"
        if time.monotonic() >= deadline:
            raise NeverHappened(f"not in {within} s: {what}{said}")
        time.sleep(pause)
        pause = min(pause * 1.1, POLL_LONGEST_SECONDS)


def freeze(process: subprocess.Popen[bytes]) -> None:
    """Stop a process and return when all its threads have stopped.

    Sending the signal without waiting would let some threads finish a request.
    """
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)


def freeze_family(process: subprocess.Popen[bytes]) -> None:
    """Freeze a process and all its descendants; some servers run a process for each client."""
    freeze(process)
    # Freeze the parent first, so that it starts no more children. Repeat this for the descendants
    # until there are no new ones, because each descendant may start more until it is frozen.
    frozen = {process.pid}
    while born := set(family(process.pid)) - frozen:
        signal_all(born, signal.SIGSTOP)
        eventually(partial(_all_stand_still, born), what="its children stand still")
        frozen |= born


def thaw_family(process: subprocess.Popen[bytes]) -> None:
    """Resume a process and all its descendants."""
    signal_all(family(process.pid), signal.SIGCONT)


def family(pid: int) -> list[int]:
    """Return the pids of a process and all its descendants, in whatever session they are."""
    found = [pid]
    for one in found:
        with suppress(OSError):  # the process has exited in the meantime
            for task in Path(f"/proc/{one}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
    return found


def signal_all(pids: list[int] | set[int], number: signal.Signals) -> None:
    """Send a signal to each process that still exists."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _all_stand_still(pids: set[int]) -> bool:
    return all(map(_stands_still, pids))


def _stands_still(pid: int) -> bool:
    """Return whether no thread of the process runs; True also if the process has exited."""
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            state = (task / "stat").read_text().rpartition(")")[2].split()[0]
            if state not in "TtZX":
                return False
    return True


def is_dead(pid: int) -> bool:
    """Return whether all threads of the process have ended, even if it was not reaped yet."""
    try:
        # A process shows as a zombie as soon as its first thread is dead, even if its other threads
        # still hold its files open.
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
    except FileNotFoundError:
        return True
    return state_of(pid) in ("gone", "Z") and len(tasks) <= 1


def state_of(pid: int) -> str:
    """Return the state letter that ps shows, or "gone"."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return "gone"
    return stat.rpartition(")")[2].split()[0]
