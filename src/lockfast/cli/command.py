"""The user's command: a process made before the lock is taken, let go when it is ours.

It is forked while `lockfast run` still has a single thread, because the kernel's "kill me
when my parent dies" (PR_SET_PDEATHSIG) has to be asked for between fork and exec, where a
process with threads must not run Python.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from typing import NoReturn

PR_SET_PDEATHSIG = 1
CANNOT_EXECUTE = 126
NOT_FOUND = 127


class Command:
    """The parent's side of a command that waits to be let go.

    It leads a process group of its own, which has its number.
    """

    def __init__(self, pid: int, pipe: int) -> None:
        self.pid = pid
        self._pipe: int | None = pipe
        self._is_reaped = False

    def let_go(self, *, token: int | None) -> None:
        """Start it, with the token in its environment."""
        if self._pipe is not None:
            # It may have been killed while it waited: then its status tells that.
            with suppress(BrokenPipeError):
                os.write(self._pipe, b"%s\n" % (b"" if token is None else b"%d" % token))
            os.close(self._pipe)
            self._pipe = None

    def poll(self) -> int | None:
        """Return how it ended or stopped, as waitpid says it, or None while it runs."""
        pid, status = os.waitpid(self.pid, os.WNOHANG | os.WUNTRACED)
        self._is_reaped = pid != 0 and not os.WIFSTOPPED(status)
        return status if pid else None

    def dismiss(self) -> None:
        """End it if it has not ended: by itself while it waits, by KILL once it runs."""
        if self._is_reaped:
            return
        if self._pipe is None:
            os.kill(self.pid, signal.SIGKILL)
        else:
            os.close(self._pipe)
        os.waitpid(self.pid, 0)
        self._is_reaped = True


def prepare(arguments: tuple[str, ...], *, name: str) -> Command:
    """Fork the process that will become the command, in a process group of its own."""
    theirs, ours = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(ours)
            os.setpgid(0, 0)
            _die_with(parent)
            _become(arguments, name=name, go=theirs)
        except BaseException:  # noqa: BLE001 - nothing of the parent's may run on in the child
            os._exit(CANNOT_EXECUTE)
    os.close(theirs)
    # Both sides say it: whichever comes first, the group is there when this returns.
    with suppress(PermissionError):
        os.setpgid(pid, pid)
    return Command(pid, ours)


def _die_with(parent: int) -> None:
    if sys.platform == "linux":
        import ctypes  # noqa: PLC0415 - slow to load, and needed in the child alone

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(0)


def _become(arguments: tuple[str, ...], *, name: str, go: int) -> NoReturn:
    # Python ignores these, and has a handler for SIGINT: the command gets what a shell
    # would have given it. What our caller chose to ignore (nohup) stays ignored.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    word = os.read(go, 64)
    if not word:
        os._exit(0)
    token = word.strip().decode()
    environment = {**os.environ, "LOCKFAST_NAME": name}
    environment.pop("LOCKFAST_TOKEN", None)  # never that of a run around this one
    if token:
        environment["LOCKFAST_TOKEN"] = token
    try:
        os.execvpe(arguments[0], arguments, environment)  # noqa: S606 - it is what `run` is for
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        os.write(2, f"lockfast: {arguments[0]}: {reason}\n".encode(errors="backslashreplace"))
        is_missing = isinstance(error, FileNotFoundError | NotADirectoryError)
        os._exit(NOT_FOUND if is_missing else CANNOT_EXECUTE)
