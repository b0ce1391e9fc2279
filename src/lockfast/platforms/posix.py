"""What Linux and macOS have in common."""

from __future__ import annotations

import fcntl
import io
import os
import select
import socket
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

IS_POSIX = True
"""Whether the platform has process groups, signals that stop them, and terminals that they own."""

# -- waiting on sockets ----------------------------------------------------------------

# eventlet removes `select.poll`. A client refuses eventlet by name, so this line must not fail
# before that check.
Poll: type[select.poll] = getattr(select, "poll", object)  # type: ignore[arg-type]
READ = select.POLLIN
WRITE = select.POLLOUT

UNIX_FAMILY: int = socket.AF_UNIX
"""The address family of Unix sockets."""

HAS_NO_WAIT = True
"""Whether there is the flag NO_WAIT."""

NO_WAIT = socket.MSG_DONTWAIT
"""Flag for a single non-blocking call on a blocking socket."""

yield_processor: Callable[[], None] = os.sched_yield
"""Let other threads that are waiting for the processor run first."""


# -- files -----------------------------------------------------------------------------


def path_of_url(path: str) -> str:
    """Return the file path for the path part of a URL."""
    # Treat four slashes like three, because in POSIX "//tmp" is a special kind of path.
    return "/" + path.lstrip("/") if path.startswith("/") else path


class HasFileno(Protocol):
    """An open file."""

    def fileno(self) -> int:
        """Return its file descriptor."""
        ...


CAN_REMOVE_OPEN_FILES = True


def lock_exclusive(file: HasFileno | int) -> None:
    """Lock the file, waiting if necessary; the lock ends when no process has the file open."""
    fcntl.flock(file, fcntl.LOCK_EX)


def lock_shared(file: HasFileno | int) -> None:
    """Lock the file in shared mode, waiting if necessary; converts a lock that we already have."""
    fcntl.flock(file, fcntl.LOCK_SH)


def try_lock_exclusive(file: HasFileno | int) -> bool:
    """Lock the file unless someone else has locked it; return whether we have the lock now."""
    return _try_lock(file, fcntl.LOCK_EX)


def try_lock_shared(file: HasFileno | int) -> bool:
    """Like `try_lock_exclusive`, but in shared mode."""
    return _try_lock(file, fcntl.LOCK_SH)


def _try_lock(file: HasFileno | int, kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def unlock(file: HasFileno | int) -> None:
    """Release the lock, even if a forked child still has the file open."""
    fcntl.flock(file, fcntl.LOCK_UN)


def remove_unless_locked(path: Path) -> None:
    """Remove the file unless it is locked; the kernel frees the lock of a process that died.

    Raises OSError.
    """
    with io.FileIO(path, "r+") as file:
        if try_lock_exclusive(file):
            path.unlink()


def sync_directory(path: Path) -> None:
    """Flush the directory's file names to disk before returning."""
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
    """Call these functions at each fork, until the process ends."""
    os.register_at_fork(
        before=before, after_in_parent=after_in_parent, after_in_child=after_in_child
    )
