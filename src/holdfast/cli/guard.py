"""A small process beside a running command, that ends it when `holdfast run` cannot.

It leads the process group in which the command runs, and does one thing: it kills that
group when `holdfast run` is gone (their socket ends, as after `kill -9`), or when the lease's
local deadline comes near and nobody has moved it, as when `holdfast run` is frozen.

It is forked before the client's threads exist, so nothing it inherits is in use.
"""

from __future__ import annotations

import math
import os
import select
import signal
import socket
import struct
from contextlib import suppress

from holdfast.runtime.clock import Clock

MESSAGE = struct.Struct("d")
CATCHABLE = set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}


class Guard:
    """The parent's side: where to say until when the command may run."""

    def __init__(self, pid: int, line: socket.socket) -> None:
        self.group = pid
        self._line = line
        self._told = math.inf

    def kill_at(self, moment: float) -> None:
        """Let the command's group be killed then, unless it is told otherwise."""
        if moment != self._told:
            self._told = moment
            # A dead guard cannot be told; the supervisor watches the same moment. One that
            # dies just now, our last word unread, resets the line instead of breaking it.
            with suppress(BrokenPipeError, ConnectionResetError):
                self._line.send(MESSAGE.pack(moment))

    def has_struck(self) -> bool:
        """Whether the guard found that the command had to end; asked after its end."""
        try:
            return bool(self._line.recv(1, socket.MSG_DONTWAIT))
        except OSError:
            return False

    def dismiss(self) -> None:
        """End the guard and leave the group alone. Until then its number is not reused."""
        with suppress(ProcessLookupError):
            os.kill(self.group, signal.SIGKILL)
        os.waitpid(self.group, 0)
        self._line.close()


def post() -> Guard:
    """Fork the guard; the command may join its group from now on."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        try:
            ours.close()
            _stand(theirs.fileno())
        finally:
            os._exit(0)
    theirs.close()
    # Both sides say it: whichever comes first, the group is there when this returns.
    with suppress(PermissionError):
        os.setpgid(pid, pid)
    return Guard(pid, ours)


def _stand(line: int) -> None:
    os.setpgid(0, 0)
    for number in CATCHABLE:
        # What is meant for the command reaches the whole group; the guard stays.
        with suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_IGN)
    # An open copy of stdout would keep the reader of a pipe waiting.
    os.dup2(line, 0)
    os.closerange(1, os.sysconf("SC_OPEN_MAX"))
    _watch(0)
    # Said before it is done: whoever sees the command dead can know by whom.
    with suppress(OSError):
        os.write(0, b"!")
    os.kill(0, signal.SIGKILL)


def _watch(line: int) -> None:
    """Return when the command has to end."""
    clock, kill_at = Clock(), math.inf
    poll = select.poll()
    poll.register(line, select.POLLIN)
    while (now := clock.now()) < kill_at:
        if poll.poll(1000 * min(kill_at - now, clock.longest_sleep)):
            words = os.read(line, 64 * MESSAGE.size)
            if not words:
                return
            (kill_at,) = MESSAGE.unpack(words[-MESSAGE.size :])
