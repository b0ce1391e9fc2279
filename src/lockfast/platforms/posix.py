"""What Linux and macOS have in common."""

from __future__ import annotations

import fcntl
import io
import os
import select
import socket
import struct
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

IS_POSIX = True
"""Whether there are process groups, signals to stop them by, and terminals that they own."""

# -- waiting on sockets ----------------------------------------------------------------

# eventlet takes it away, and is refused by name when a client is made, not by this.
Poll: type[select.poll] = getattr(select, "poll", object)  # type: ignore[arg-type]
READ = select.POLLIN
WRITE = select.POLLOUT

KEEPS_TIME = True
"""Whether the kernel ends a call on a blocking socket in time; see `keep_time`."""

NO_WAIT = socket.MSG_DONTWAIT
"""A flag with which one call on a blocking socket does not wait."""

make_way: Callable[[], None] = os.sched_yield
"""Let whoever else waits for this processor run first."""


def keep_time(sock: socket.socket, seconds: float) -> None:
    """Let the kernel end each later call on the socket after so long, by BlockingIOError."""
    whole = int(seconds)
    value = struct.pack("@ll", whole, max(1, int((seconds - whole) * 1_000_000)))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, value)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, value)


# -- files -----------------------------------------------------------------------------


def path_of_url(path: str) -> str:
    """Return the path of a file that a URL names by this one."""
    # Four slashes are meant as three: in POSIX "//tmp" is a path of its own kind.
    return "/" + path.lstrip("/") if path.startswith("/") else path


class Numbered(Protocol):
    """An open file."""

    def fileno(self) -> int:
        """Return its number."""
        ...


CAN_REMOVE_OPEN_FILES = True


def lock_alone(file: Numbered | int) -> None:
    """Lock the file, waiting for it; the kernel drops the lock with the last who has it open."""
    fcntl.flock(file, fcntl.LOCK_EX)


def lock_shared(file: Numbered | int) -> None:
    """As `lock_alone`, but beside others who share it; a lock that we have becomes this one."""
    fcntl.flock(file, fcntl.LOCK_SH)


def try_lock_alone(file: Numbered | int) -> bool:
    """Whether the file is locked now; false if another has it."""
    return _try_lock(file, fcntl.LOCK_EX)


def try_lock_shared(file: Numbered | int) -> bool:
    """As `try_lock_alone`, but beside others who share it."""
    return _try_lock(file, fcntl.LOCK_SH)


def _try_lock(file: Numbered | int, kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def unlock(file: Numbered | int) -> None:
    """Let go of the lock, also for a forked child that has the file open as well."""
    fcntl.flock(file, fcntl.LOCK_UN)


def remove_unless_locked(path: Path) -> None:
    """Remove a file whose owner has died: the kernel dropped its lock. Raises OSError."""
    with io.FileIO(path, "r+") as file:
        if try_lock_alone(file):
            path.unlink()


def sync_directory(path: Path) -> None:
    """Let the names of the files in it be on the disk when this returns."""
    number = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(number)
    finally:
        os.close(number)


# -- processes -------------------------------------------------------------------------


def at_fork(
    *,
    before: Callable[[], None],
    after_in_parent: Callable[[], None],
    after_in_child: Callable[[], None],
) -> None:
    """Call these whenever the process is copied, for as long as it lives."""
    os.register_at_fork(
        before=before, after_in_parent=after_in_parent, after_in_child=after_in_child
    )
