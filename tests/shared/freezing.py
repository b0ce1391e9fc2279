"""Stopping a process, and knowing that it has stopped."""

from __future__ import annotations

import os
import signal
import subprocess


def freeze(process: subprocess.Popen[bytes]) -> None:
    """Come back when all its threads stand still: the signal alone lets some finish a request."""
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
