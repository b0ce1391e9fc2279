"""The same run however it was started: from a terminal, by nohup, or in a script with `&`."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

INHERITED = [
    getattr(signal, name) for name in ("SIGHUP", "SIGINT", "SIGQUIT") if hasattr(signal, name)
]
"""Signals that a process ignores if nohup started it, or a shell that starts a background job."""


def as_from_a_terminal() -> None:
    """Give the programs that the tests start the usual signal dispositions.

    A process inherits the signals its parent ignores, and `lockfast run` rightly goes on ignoring
    them: its tests would wait for ever for a forwarded SIGINT. A handler is not inherited across
    exec, so with a handler that does nothing, the signal is still ignored in this process, but not
    in the programs.
    """
    for number in INHERITED:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, _ignore)


def _ignore(_number: int, _frame: object) -> None:
    """Do nothing, as before."""


def in_a_session_of_its_own() -> None:
    """Leave our terminal, if we are one of several workers.

    Signals from a terminal, such as a hangup, are for the process that started the workers to
    handle. Sent to all processes at once, the signals would end programs under test.
    """
    if "PYTEST_XDIST_WORKER" in os.environ and hasattr(os, "setsid"):
        with suppress(PermissionError):  # setsid fails for a group leader
            os.setsid()
