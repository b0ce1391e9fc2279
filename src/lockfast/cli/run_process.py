"""The user's process, its guard, and the terminal."""

from __future__ import annotations

import math
import mmap
import os
import select
import signal
import socket
import struct
import sys
import termios
from contextlib import suppress
from typing import NoReturn

from lockfast.runtime.clock import Clock

# The user's command: a process forked before the lock is acquired, and started once we hold it.
#
# The fork happens while `lockfast run` still has a single thread. The kernel's "kill me when my
# parent dies" (PR_SET_PDEATHSIG) has to be requested between fork and exec, and a process with
# several threads must not run Python there.

PR_SET_PDEATHSIG = 1
CANNOT_EXECUTE = 126
NOT_FOUND = 127


class Command:
    """The parent's side of a command that waits to be started.

    The command leads a process group of its own, whose id is the command's pid.
    """

    def __init__(self, pid: int, pipe: int) -> None:
        self.pid = pid
        self._pipe: int | None = pipe
        self._is_reaped = False

    def start(self, *, token: int | None) -> None:
        """Start the command, with the token in its environment."""
        if self._pipe is not None:
            # The command may have been killed while it waited for its start. The exit status will
            # show that.
            with suppress(BrokenPipeError):
                os.write(self._pipe, b"%s\n" % (b"" if token is None else b"%d" % token))
            os.close(self._pipe)
            self._pipe = None

    def poll(self) -> int | None:
        """Return the waitpid status if the command has ended or stopped, or None while it runs."""
        pid, status = os.waitpid(self.pid, os.WNOHANG | os.WUNTRACED)
        self._is_reaped = pid != 0 and not os.WIFSTOPPED(status)
        return status if pid else None

    def dismiss(self) -> None:
        """End the command if it still exists.

        A command that still waits to be started exits; a running command is killed.
        """
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
        except BaseException:  # noqa: BLE001 - no code of the parent may run in the child
            os._exit(CANNOT_EXECUTE)
    os.close(theirs)
    # Both the parent and the child set the group, so that the group exists when this function
    # returns, whichever process runs first.
    with suppress(PermissionError):
        os.setpgid(pid, pid)
    return Command(pid, ours)


def _die_with(parent: int) -> None:
    if sys.platform == "linux":
        import ctypes  # noqa: PLC0415 - slow to load, and only the child needs it

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(0)


def _become(arguments: tuple[str, ...], *, name: str, go: int) -> NoReturn:
    # Python ignores SIGPIPE and SIGXFSZ, and has its own handler for SIGINT. The command gets the
    # default action for all three, as if a shell had started it. Signals that our caller ignores
    # (nohup) stay ignored.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    word = os.read(go, 64)
    if not word:
        os._exit(0)
    token = word.strip().decode()
    environment = {**os.environ, "LOCKFAST_NAME": name}
    environment.pop("LOCKFAST_TOKEN", None)  # do not pass on the token of an enclosing run
    if token:
        environment["LOCKFAST_TOKEN"] = token
    try:
        os.execvpe(arguments[0], arguments, environment)  # noqa: S606 - the purpose of `run`
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        os.write(2, f"lockfast: {arguments[0]}: {reason}\n".encode(errors="backslashreplace"))
        is_missing = isinstance(error, FileNotFoundError | NotADirectoryError)
        os._exit(NOT_FOUND if is_missing else CANNOT_EXECUTE)


# The guard: a small process that ends a running command when `lockfast run` cannot.
#
# The guard kills the command's process group in two cases: when `lockfast run` is gone (their
# socket closes, as after `kill -9`), and when the lease's local deadline comes near and has not
# been extended, as when `lockfast run` is frozen. The guard is in a session of its own, so that an
# operator or a terminal that stops the command's group does not stop the guard.
#
# The guard is forked before the client's threads exist, so nothing that it inherits is in use.

TIME_STRUCT = struct.Struct("d")
DESCRIPTORS_MAX = 1 << 20
"""Number of descriptors to close if the system sets no limit, as may be the case on macOS."""

CATCHABLE = set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}


class Guard:
    """The parent's side of the guard; it sets the deadline of the command.

    The deadline is in shared memory, because messages are not reliable here: a stopped guard reads
    no messages, and would act on an old one when it resumes.
    """

    def __init__(self, pid: int, line: socket.socket, moment: mmap.mmap) -> None:
        self.pid: int | None = pid
        self._socket = line
        self._moment = moment
        self._kill_at = math.inf

    def kill_at(self, moment: float) -> None:
        """Have the command's group killed at this time, unless a later call changes it."""
        if moment != self._kill_at:
            self._kill_at = moment
            TIME_STRUCT.pack_into(self._moment, 0, moment)
            # This byte only wakes the guard, which then reads the deadline. If the socket buffer is
            # full, the bytes in it wake the guard just as well. A dead guard cannot be woken, but
            # the supervisor watches the same deadline. The send then fails with a broken pipe, or
            # with a connection reset if the guard died before it read our last message.
            with suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
                self._socket.send(b"\0", socket.MSG_DONTWAIT)

    def has_struck(self) -> bool:
        """Return whether the guard decided to kill the command; call this after its end."""
        try:
            return bool(self._socket.recv(1, socket.MSG_DONTWAIT))
        except OSError:
            return False

    def dismiss(self) -> None:
        """End the guard without killing the command's group; a second call does nothing."""
        if self.pid is None:
            return
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self.pid = None
        self._socket.close()
        self._moment.close()


def post(group: int) -> Guard:
    """Fork the guard of a process group."""
    ours, theirs = socket.socketpair()
    moment = mmap.mmap(-1, TIME_STRUCT.size)
    TIME_STRUCT.pack_into(moment, 0, math.inf)
    pid = os.fork()
    if pid == 0:
        try:
            ours.close()
            _run_guard(theirs.fileno(), moment, group)
        finally:
            os._exit(0)
    theirs.close()
    return Guard(pid, ours, moment)


def _run_guard(line: int, moment: mmap.mmap, group: int) -> None:
    os.setsid()
    for number in CATCHABLE:
        # Signals that end other processes, such as that of a terminal hangup, must not end the
        # guard.
        with suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_IGN)
    # Close all other descriptors. For example, if the guard kept a copy of stdout open, the reader
    # of a pipe would never see its end.
    os.dup2(line, 0)
    most = os.sysconf("SC_OPEN_MAX")
    os.closerange(1, most if most > 0 else DESCRIPTORS_MAX)
    _watch(0, moment)
    # Report before killing, so that the supervisor, when it finds the command dead, can see that
    # the guard killed it.
    with suppress(OSError):
        os.write(0, b"!")
    # The group id cannot be reused while a member of the group lives, or until `lockfast run` has
    # reaped the command. If `lockfast run` is gone too, the guard reaches this line long before
    # process ids wrap around.
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def _watch(line: int, moment: mmap.mmap) -> None:
    """Return when the command has to end."""
    clock = Clock()
    poll = select.poll()
    poll.register(line, select.POLLIN)
    while (now := clock.now()) < (kill_at := TIME_STRUCT.unpack_from(moment, 0)[0]):
        if poll.poll(1000 * min(kill_at - now, clock.longest_sleep)) and not os.read(line, 4096):
            return


KEYBOARD, SCREEN = 0, 1


# The command's process group is in the foreground of the terminal while the command runs.
#
# Only the foreground group may read the keyboard, and Ctrl-C goes only to that group. So the
# command gets Ctrl-C exactly once, from the terminal itself.


class Terminal:
    """Moves another process group to the terminal's foreground, if our own group is there."""

    def __init__(self) -> None:
        self._is_lent = False

    @property
    def is_borrowed(self) -> bool:
        """Whether the command's group is in the foreground."""
        return self._is_lent

    def lend(self, group: int) -> None:
        """Move the group to the foreground, if we are in the foreground.

        If our output goes to a pipe, our own group keeps the foreground, because the reader of the
        pipe (`less`) is in that group and may need the keyboard too.
        """
        if os.isatty(KEYBOARD) and os.isatty(SCREEN) and _is_foreground():
            _set_foreground(group)
            self._is_lent = True

    def take_back(self) -> None:
        """Move our own group back to the foreground."""
        if self._is_lent:
            self._is_lent = False
            _set_foreground(os.getpgrp())


def _is_foreground() -> bool:
    try:
        return os.tcgetpgrp(KEYBOARD) == os.getpgrp()
    except OSError:
        return False  # a terminal, but not our controlling terminal


def _set_foreground(group: int) -> None:
    # From the background, `tcsetpgrp` would stop us (SIGTTOU) unless the signal is blocked.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
    try:
        # Ignore the error, because the terminal may have hung up in the meantime.
        with suppress(OSError, termios.error):
            os.tcsetpgrp(KEYBOARD, group)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
