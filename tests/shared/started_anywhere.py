"""The same run, however it was started: from a terminal, by nohup, or behind a script's `&`."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

INHERITED = [
    getattr(signal, name) for name in ("SIGHUP", "SIGINT", "SIGQUIT") if hasattr(signal, name)
]
"""What nohup, or a shell that starts a job in the background, lets us ignore."""


def as_from_a_terminal() -> None:
    """Let what the tests start begin with the usual dispositions.

    A process inherits what its parent ignores, and `lockfast run` rightly goes on ignoring it:
    its tests would wait for a forwarded SIGINT for ever. A handler is not inherited by what is
    executed, so that one that does nothing still ignores the signal here, and not there.
    """
    for number in INHERITED:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, _ignore)


def _ignore(_number: int, _frame: object) -> None:
    """Do nothing, as before."""


def in_a_session_of_its_own() -> None:
    """Leave our terminal, if we are one of several workers.

    What a terminal tells, such as that it hangs up, is for the process that started the
    workers to judge. Sent to all at once, it would end programs that are on trial.
    """
    if "PYTEST_XDIST_WORKER" in os.environ and hasattr(os, "setsid"):
        with suppress(PermissionError):  # who leads a group has one already
            os.setsid()
