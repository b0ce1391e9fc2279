"""A small process beside a running command, that ends it when `lockfast run` cannot.

It does one thing: it kills the command's process group when `lockfast run` is gone (their
socket ends, as after `kill -9`), or when the lease's local deadline comes near and nobody has
moved it, as when `lockfast run` is frozen. It stands outside that group, in a session of its
own: an operator who stops the group, or a terminal that does, must not stop the guard.

It is forked before the client's threads exist, so nothing it inherits is in use.
"""

from __future__ import annotations

import math
import mmap
import os
import select
import signal
import socket
import struct
from contextlib import suppress

from lockfast.runtime.clock import Clock

MOMENT = struct.Struct("d")
MOST = 1 << 20
"""So many descriptors are looked for where the system sets no limit, as macOS may."""

CATCHABLE = set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}


class Guard:
    """The parent's side: where to say until when the command may run.

    The moment lies in memory that both share. A message could not always be sent: a guard
    that is stopped reads none, and when it goes on it would act on an old one.
    """

    def __init__(self, pid: int, line: socket.socket, moment: mmap.mmap) -> None:
        self.pid: int | None = pid
        self._line = line
        self._moment = moment
        self._told = math.inf

    def kill_at(self, moment: float) -> None:
        """Let the command's group be killed then, unless it is told otherwise."""
        if moment != self._told:
            self._told = moment
            MOMENT.pack_into(self._moment, 0, moment)
            # Only wakes it, to look: a full line does that too. A dead guard cannot be woken;
            # the supervisor watches the same moment. One that dies just now, our last word
            # unread, resets the line instead of breaking it.
            with suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
                self._line.send(b"\0", socket.MSG_DONTWAIT)

    def has_struck(self) -> bool:
        """Whether the guard found that the command had to end; asked after its end."""
        try:
            return bool(self._line.recv(1, socket.MSG_DONTWAIT))
        except OSError:
            return False

    def dismiss(self) -> None:
        """End the guard and leave the group alone; a second time does nothing."""
        if self.pid is None:
            return
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self.pid = None
        self._line.close()
        self._moment.close()


def post(group: int) -> Guard:
    """Fork the guard of a process group."""
    ours, theirs = socket.socketpair()
    moment = mmap.mmap(-1, MOMENT.size)
    MOMENT.pack_into(moment, 0, math.inf)
    pid = os.fork()
    if pid == 0:
        try:
            ours.close()
            _stand(theirs.fileno(), moment, group)
        finally:
            os._exit(0)
    theirs.close()
    return Guard(pid, ours, moment)


def _stand(line: int, moment: mmap.mmap, group: int) -> None:
    os.setsid()
    for number in CATCHABLE:
        # What ends others, such as a terminal that hangs up, is nothing to the guard.
        with suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_IGN)
    # An open copy of stdout would keep the reader of a pipe waiting.
    os.dup2(line, 0)
    most = os.sysconf("SC_OPEN_MAX")
    os.closerange(1, most if most > 0 else MOST)
    _watch(0, moment)
    # Said before it is done: whoever sees the command dead can know by whom.
    with suppress(OSError):
        os.write(0, b"!")
    # Its number is in use while one of the group lives, or `lockfast run` has not noticed
    # its end; and if that is gone too, we are here long before numbers come round again.
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def _watch(line: int, moment: mmap.mmap) -> None:
    """Return when the command has to end."""
    clock = Clock()
    poll = select.poll()
    poll.register(line, select.POLLIN)
    while (now := clock.now()) < (kill_at := MOMENT.unpack_from(moment, 0)[0]):
        if poll.poll(1000 * min(kill_at - now, clock.longest_sleep)) and not os.read(line, 4096):
            return
