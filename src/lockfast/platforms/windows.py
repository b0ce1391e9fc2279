"""Windows: its replacements, in Python and the kernel, for what POSIX offers."""

from __future__ import annotations

import ctypes
import msvcrt
import os
import select
import struct
import time
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "CAN_REMOVE_OPEN_FILES",
    "HAS_NO_WAIT",
    "IS_POSIX",
    "NAME",
    "NO_WAIT",
    "READ",
    "UNIX_FAMILY",
    "WRITE",
    "Poll",
    "at_fork",
    "boot_id",
    "clock_offset",
    "default_file_mode",
    "file_system",
    "is_mount_point",
    "is_shared_file_system",
    "lock_exclusive",
    "lock_shared",
    "now",
    "path_of_url",
    "remove_unless_locked",
    "state_directory",
    "sync_directory",
    "try_lock_exclusive",
    "try_lock_shared",
    "unlock",
    "yield_processor",
]

NAME = "Windows"
IS_POSIX = False

# The performance counter counts the time since the machine started, including sleep and
# hibernation, and all processes share it. Before Python 3.13, `time.monotonic()` uses another
# clock, which advances in steps of 16 ms.
now: Callable[[], float] = time.perf_counter

# -- waiting on sockets ----------------------------------------------------------------

READ = 1
WRITE = 4


class Poll:
    """Replaces `select.poll`, which Windows lacks, with support for read and write events only."""

    def __init__(self) -> None:
        self._wanted: dict[int, int] = {}

    def register(self, fd: HasFileno | int, eventmask: int = READ | WRITE, /) -> None:
        """Wait for this socket too; raise ValueError if the socket is closed."""
        number = _number(fd)
        if number < 0:
            raise ValueError("file descriptor cannot be a negative integer (-1)")
        self._wanted[number] = eventmask

    def modify(self, fd: HasFileno | int, eventmask: int, /) -> None:
        """Change the events to wait for on a socket."""
        self._wanted[_number(fd)] = eventmask

    def unregister(self, fd: HasFileno | int, /) -> None:
        """Stop waiting for this socket."""
        del self._wanted[_number(fd)]

    def poll(self, timeout: float | None = None, /) -> list[tuple[int, int]]:
        """Return the ready sockets with their events, waiting at most `timeout` milliseconds."""
        seconds = None if timeout is None or timeout < 0 else timeout / 1000
        if not self._wanted:  # select() on Windows refuses empty lists
            time.sleep(seconds or 0.0)
            return []
        reading = [number for number, events in self._wanted.items() if events & READ]
        writing = [number for number, events in self._wanted.items() if events & WRITE]
        # A failed connection is reported only in the third list of select().
        readable, writable, failed = select.select(reading, writing, writing, seconds)
        ready = dict.fromkeys(readable, READ)
        for number in (*writable, *failed):
            ready[number] = ready.get(number, 0) | WRITE
        return list(ready.items())


UNIX_FAMILY = -1  # Python has no Unix sockets there
HAS_NO_WAIT = False
NO_WAIT = 0


def yield_processor() -> None:
    """Do nothing, because Python cannot yield the processor on Windows."""


# -- files -----------------------------------------------------------------------------


def path_of_url(path: str) -> str:
    """Return the file path for the path part of a URL."""
    # In `sqlite:///C:/locks.db`, the third slash is part of the URL, not of the path.
    named = path.lstrip("/")
    return named if named[1:2] == ":" else path


class HasFileno(Protocol):
    """An open file, or a socket."""

    def fileno(self) -> int:
        """Return its file descriptor."""
        ...


def _number(file: HasFileno | int) -> int:
    return file if isinstance(file, int) else file.fileno()


CAN_REMOVE_OPEN_FILES = False

_RETRY_SECONDS = 0.005

_FAIL_IMMEDIATELY = 1
_EXCLUSIVE = 2
_ERROR_NOT_LOCKED = 158
_ERROR_LOCK_VIOLATION = 33
_ERROR_IO_PENDING = 997

# Other processes cannot read a byte that we have locked, so we lock a byte far beyond the end of
# the file. OVERLAPPED contains two kernel pointers, the offset of that byte, and no event.
_LOCK_OFFSET = struct.pack("@PPIIP", 0, 0, 0, 0x4000_0000, 0)


def lock_exclusive(file: HasFileno | int) -> None:
    """Lock the file, waiting if necessary; the lock ends when the file is closed."""
    while not try_lock_exclusive(file):
        time.sleep(_RETRY_SECONDS)  # sleep, because a blocking call could not be interrupted


def lock_shared(file: HasFileno | int) -> None:
    """Lock the file in shared mode, waiting if necessary; converts a lock that we already have."""
    while not try_lock_shared(file):
        time.sleep(_RETRY_SECONDS)


def try_lock_exclusive(file: HasFileno | int) -> bool:
    """Lock the file unless someone else has locked it; return whether we have the lock now."""
    return _try_lock(file, _EXCLUSIVE)


def try_lock_shared(file: HasFileno | int) -> bool:
    """Like `try_lock_exclusive`, but in shared mode."""
    return _try_lock(file, 0)


def _try_lock(file: HasFileno | int, kind: int) -> bool:
    unlock(file)  # unlock first, or our own earlier lock would block us
    kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    handle = ctypes.c_void_p(msvcrt.get_osfhandle(_number(file)))
    if kernel.LockFileEx(handle, kind | _FAIL_IMMEDIATELY, 0, 1, 0, _lock_offset()):
        return True
    error = ctypes.get_last_error()
    if error in {_ERROR_LOCK_VIOLATION, _ERROR_IO_PENDING}:
        return False
    raise ctypes.WinError(error)


def unlock(file: HasFileno | int) -> None:
    """Release the lock, if we have one."""
    kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    handle = ctypes.c_void_p(msvcrt.get_osfhandle(_number(file)))
    if not kernel.UnlockFileEx(handle, 0, 1, 0, _lock_offset()):
        error = ctypes.get_last_error()
        if error != _ERROR_NOT_LOCKED:
            raise ctypes.WinError(error)


def _lock_offset() -> ctypes.Array[ctypes.c_char]:
    return ctypes.create_string_buffer(_LOCK_OFFSET, len(_LOCK_OFFSET))


def remove_unless_locked(path: Path) -> None:
    """Remove the file unless it is locked; the kernel frees the lock of a process that died.

    Raises OSError.
    """
    with open(path, "r+b") as file:  # noqa: PTH123 - as `Path.open`, in one step
        is_dead = try_lock_exclusive(file)
    if is_dead:
        # Only a closed file can be removed, so this fails if another process has just opened the
        # file.
        path.unlink()


def sync_directory(path: Path) -> None:
    """Do nothing, because a directory cannot be opened here, and NTFS journals its file names."""


def default_file_mode() -> int:
    """Return the mode of a new file; only the write bit has a meaning on Windows."""
    return 0o666


def state_directory() -> Path:
    """Return the directory for a user's persistent program state."""
    local = os.environ.get("LOCALAPPDATA")
    return Path(local) if local else Path.home() / "AppData" / "Local"


_DRIVES = {2: "removable", 3: "fixed", 4: "network", 5: "CD-ROM", 6: "RAM"}


def file_system(directory: Path) -> str:
    """Return the type of the drive under the directory, or "" if unknown."""
    kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    # The root may also be a share without a drive letter, such as \\server\share\.
    kind = _DRIVES.get(kernel.GetDriveTypeW(ctypes.c_wchar_p(directory.resolve().anchor)), "")
    return f"{kind} drive" if kind else ""


def is_mount_point(file: Path) -> bool:
    """Return False, because Windows mounts only directories."""
    del file
    return False


def is_shared_file_system(kind: str) -> bool:
    """Return whether other machines may see a drive of this type."""
    return kind.startswith("network")


# -- boots and processes ---------------------------------------------------------------

_SYSTEM_TIME_OF_DAY = 3
# The fields are BootTime, CurrentTime, TimeZoneBias, TimeZoneId, Reserved, BootTimeBias and
# SleepTimeBias.
_TIME_OF_DAY = struct.Struct("@qqqIIqq")


def boot_id() -> str:
    """Return an id of this boot, which no other boot of this machine has, made from the boot time.

    The boot time is that of the clock as it was set at the boot, so setting the clock later does
    not change the id.
    """
    buffer = ctypes.create_string_buffer(_TIME_OF_DAY.size)
    ntdll = ctypes.WinDLL("ntdll")
    status = ntdll.NtQuerySystemInformation(_SYSTEM_TIME_OF_DAY, buffer, len(buffer), None)
    booted, *_, bias, _sleep = _TIME_OF_DAY.unpack(buffer.raw)
    if status or not booted:
        raise OSError(f"Windows does not tell when it was started ({status & 0xFFFFFFFF:#x})")
    # Setting the clock shifts the recorded boot time, and the bias by the same amount.
    return f"{booted - bias:x}"


def clock_offset() -> float:
    """Return 0, because a process on Windows has no clock offset of its own."""
    return 0.0


def at_fork(
    *,
    before: Callable[[], None],
    after_in_parent: Callable[[], None],
    after_in_child: Callable[[], None],
) -> None:
    """Do nothing, because Windows has no fork."""
