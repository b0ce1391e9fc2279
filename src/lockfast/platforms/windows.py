"""Windows: what Python and the kernel offer there in the place of POSIX."""

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
    import socket
    from collections.abc import Callable

__all__ = [
    "CAN_REMOVE_OPEN_FILES",
    "IS_POSIX",
    "KEEPS_TIME",
    "NAME",
    "NO_WAIT",
    "READ",
    "WRITE",
    "Poll",
    "at_fork",
    "boot_id",
    "clock_offset",
    "file_system",
    "is_mounted_alone",
    "keep_time",
    "lock_alone",
    "lock_shared",
    "make_way",
    "now",
    "path_of_url",
    "reaches_other_machines",
    "remove_unless_locked",
    "state_directory",
    "sync_directory",
    "try_lock_alone",
    "try_lock_shared",
    "unlock",
    "usual_mode",
]

NAME = "Windows"
IS_POSIX = False

# The performance counter: since the machine was started, sleep and hibernation included, the same
# for all processes. `time.monotonic()` is another clock before Python 3.13, in steps of 16 ms.
now: Callable[[], float] = time.perf_counter

# -- waiting on sockets ----------------------------------------------------------------

READ = 1
WRITE = 4


class Poll:
    """As `select.poll`, which is missing here: of its events those to read and to write."""

    def __init__(self) -> None:
        self._wanted: dict[int, int] = {}

    def register(self, fd: Numbered | int, eventmask: int = READ | WRITE, /) -> None:
        """Wait for this socket too; one that is closed is a ValueError."""
        number = _number(fd)
        if number < 0:
            raise ValueError("file descriptor cannot be a negative integer (-1)")
        self._wanted[number] = eventmask

    def modify(self, fd: Numbered | int, eventmask: int, /) -> None:
        """Wait for other events of a socket."""
        self._wanted[_number(fd)] = eventmask

    def unregister(self, fd: Numbered | int, /) -> None:
        """Wait for this socket no more."""
        del self._wanted[_number(fd)]

    def poll(self, timeout: float | None = None, /) -> list[tuple[int, int]]:
        """Return which are ready, with what they are ready for, after so many milliseconds."""
        seconds = None if timeout is None or timeout < 0 else timeout / 1000
        if not self._wanted:  # refused by Windows' own
            time.sleep(seconds or 0.0)
            return []
        reading = [number for number, events in self._wanted.items() if events & READ]
        writing = [number for number, events in self._wanted.items() if events & WRITE]
        # A connection that failed is told by the third list alone.
        readable, writable, failed = select.select(reading, writing, writing, seconds)
        ready = dict.fromkeys(readable, READ)
        for number in (*writable, *failed):
            ready[number] = ready.get(number, 0) | WRITE
        return list(ready.items())


KEEPS_TIME = False
NO_WAIT = 0


def make_way() -> None:
    """Do nothing: Python has no such call here."""


def keep_time(sock: socket.socket, seconds: float) -> None:
    """Leave it to Python: after the kernel's own timeout a socket is of no use any more."""
    sock.settimeout(seconds)


# -- files -----------------------------------------------------------------------------


def path_of_url(path: str) -> str:
    """Return the path of a file that a URL names by this one."""
    # In `sqlite:///C:/locks.db` the third slash is the URL's, and no part of the path.
    named = path.lstrip("/")
    return named if named[1:2] == ":" else path


class Numbered(Protocol):
    """An open file, or a socket."""

    def fileno(self) -> int:
        """Return its number."""
        ...


def _number(file: Numbered | int) -> int:
    return file if isinstance(file, int) else file.fileno()


CAN_REMOVE_OPEN_FILES = False

_LOOK_AGAIN = 0.005

_FAIL_IMMEDIATELY = 1
_EXCLUSIVE = 2
_ERROR_NOT_LOCKED = 158
_ERROR_LOCK_VIOLATION = 33
_ERROR_IO_PENDING = 997

# Whoever reads a byte that another has locked is refused: so the one that stands for the file is
# far behind its end. OVERLAPPED: two pointers of the kernel's, where that byte is, and no event.
_PLACE = struct.pack("@PPIIP", 0, 0, 0, 0x4000_0000, 0)


def lock_alone(file: Numbered | int) -> None:
    """Lock the file, waiting for it; the kernel drops the lock when the file is closed."""
    while not try_lock_alone(file):
        time.sleep(_LOOK_AGAIN)  # a call that waits could not be interrupted


def lock_shared(file: Numbered | int) -> None:
    """As `lock_alone`, but beside others who share it; a lock that we have becomes this one."""
    while not try_lock_shared(file):
        time.sleep(_LOOK_AGAIN)


def try_lock_alone(file: Numbered | int) -> bool:
    """Whether the file is locked now; false if another has it."""
    return _try_lock(file, _EXCLUSIVE)


def try_lock_shared(file: Numbered | int) -> bool:
    """As `try_lock_alone`, but beside others who share it."""
    return _try_lock(file, 0)


def _try_lock(file: Numbered | int, kind: int) -> bool:
    unlock(file)  # a lock of ours would be in the way of another one of ours
    kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    handle = ctypes.c_void_p(msvcrt.get_osfhandle(_number(file)))
    if kernel.LockFileEx(handle, kind | _FAIL_IMMEDIATELY, 0, 1, 0, _place()):
        return True
    error = ctypes.get_last_error()
    if error in {_ERROR_LOCK_VIOLATION, _ERROR_IO_PENDING}:
        return False
    raise ctypes.WinError(error)


def unlock(file: Numbered | int) -> None:
    """Let go of the lock, if we have one."""
    kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    handle = ctypes.c_void_p(msvcrt.get_osfhandle(_number(file)))
    if not kernel.UnlockFileEx(handle, 0, 1, 0, _place()):
        error = ctypes.get_last_error()
        if error != _ERROR_NOT_LOCKED:
            raise ctypes.WinError(error)


def _place() -> ctypes.Array[ctypes.c_char]:
    return ctypes.create_string_buffer(_PLACE, len(_PLACE))


def remove_unless_locked(path: Path) -> None:
    """Remove a file whose owner has died: the kernel dropped its lock. Raises OSError."""
    with open(path, "r+b") as file:  # noqa: PTH123 - as `Path.open`, in one step
        is_dead = try_lock_alone(file)
    if is_dead:
        # Only a closed file can be removed, and not one that its owner opens just now.
        path.unlink()


def sync_directory(path: Path) -> None:
    """Do nothing: a directory cannot be opened here, and NTFS keeps a log of its names."""


def usual_mode() -> int:
    """Return the mode of a new file: of its bits only the one to write means anything here."""
    return 0o666


def state_directory() -> Path:
    """Return where the programs of a user keep what they have to find again."""
    local = os.environ.get("LOCALAPPDATA")
    return Path(local) if local else Path.home() / "AppData" / "Local"


_DRIVES = {2: "removable", 3: "fixed", 4: "network", 5: "CD-ROM", 6: "RAM"}


def file_system(directory: Path) -> str:
    """Return the type of the drive under the directory, or "" if it is not told."""
    kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    # A share without a letter is a root too: \\server\share\.
    kind = _DRIVES.get(kernel.GetDriveTypeW(ctypes.c_wchar_p(directory.resolve().anchor)), "")
    return f"{kind} drive" if kind else ""


def is_mounted_alone(file: Path) -> bool:
    """Return False: Windows mounts directories alone."""
    del file
    return False


def reaches_other_machines(kind: str) -> bool:
    """Whether other machines may see a drive of this type."""
    return kind.startswith("network")


# -- boots and processes ---------------------------------------------------------------

_SYSTEM_TIME_OF_DAY = 3
# BootTime, CurrentTime, TimeZoneBias, TimeZoneId, Reserved, BootTimeBias, SleepTimeBias.
_TIME_OF_DAY = struct.Struct("@qqqIIqq")


def boot_id() -> str:
    """Return what no other boot of this machine is called: when it was, by the clock of then."""
    buffer = ctypes.create_string_buffer(_TIME_OF_DAY.size)
    ntdll = ctypes.WinDLL("ntdll")
    status = ntdll.NtQuerySystemInformation(_SYSTEM_TIME_OF_DAY, buffer, len(buffer), None)
    booted, *_, bias, _sleep = _TIME_OF_DAY.unpack(buffer.raw)
    if status or not booted:
        raise OSError(f"Windows does not tell when it was started ({status & 0xFFFFFFFF:#x})")
    # Whoever sets the clock moves the moment of the boot along with it, and the bias as far.
    return f"{booted - bias:x}"


def clock_offset() -> float:
    """Return 0: a process has no clock of its own here."""
    return 0.0


def at_fork(
    *,
    before: Callable[[], None],
    after_in_parent: Callable[[], None],
    after_in_child: Callable[[], None],
) -> None:
    """Do nothing: there is no fork."""
