"""macOS: a clock that counts sleep, the id of a boot, and what statfs says of a volume."""

from __future__ import annotations

import ctypes
import os
import struct
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from lockfast.platforms.posix import (
    CAN_REMOVE_OPEN_FILES,
    IS_POSIX,
    KEEPS_TIME,
    NO_WAIT,
    READ,
    WRITE,
    Poll,
    at_fork,
    keep_time,
    lock_alone,
    lock_shared,
    make_way,
    path_of_url,
    remove_unless_locked,
    sync_directory,
    try_lock_alone,
    try_lock_shared,
    unlock,
)

if TYPE_CHECKING:
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

NAME = "macOS"

# It counts sleep, as CLOCK_MONOTONIC does here and `time.monotonic()` does not, and besides
# nobody who sets or slews the wall clock touches it: clock_gettime(3).
now: Callable[[], float] = partial(time.clock_gettime, time.CLOCK_MONOTONIC_RAW)

# struct statfs with 64-bit inodes, sys/mount.h: the flags stand at byte 64, the type at 72.
_STATFS_SIZE = 2168
_FLAGS_AND_TYPE = struct.Struct("@64xI4x16s")
_MNT_LOCAL = 0x1000

_REMOTE = "network "
"""Stands before the type of a volume that is not this machine's own."""


def boot_id() -> str:
    """Return what no other boot of any machine is called."""
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(64)
    size = ctypes.c_size_t(len(buffer))
    # Not kern.boottime, which moves when somebody sets the clock.
    if libc.sysctlbyname(b"kern.bootsessionuuid", buffer, ctypes.byref(size), None, 0):
        number = ctypes.get_errno()
        raise OSError(number, f"kern.bootsessionuuid: {os.strerror(number)}")
    return buffer.value.decode("ascii")


def clock_offset() -> float:
    """Return 0: a process has no clock of its own here."""
    return 0.0


def state_directory() -> Path:
    """Return where the programs of a user keep what they have to find again."""
    return Path.home() / ".local" / "state"


def file_system(directory: Path) -> str:
    """Return the type of the file system under the directory, or "" if it is not told."""
    libc = ctypes.CDLL(None, use_errno=True)
    # On Intel the plain name is the one of before 64-bit inodes, with another structure.
    statfs = getattr(libc, "statfs$INODE64", None) or libc.statfs
    buffer = ctypes.create_string_buffer(_STATFS_SIZE)
    place = directory.resolve()
    while statfs(os.fsencode(place), buffer):
        if place == place.parent:
            return ""
        place = place.parent  # it is yet to be made, in this one
    flags, kind = _FLAGS_AND_TYPE.unpack_from(buffer.raw)
    name: str = kind.partition(b"\0")[0].decode("ascii", "replace")
    return name if flags & _MNT_LOCAL else _REMOTE + name


def is_mounted_alone(file: Path) -> bool:
    """Return False: macOS mounts directories alone."""
    del file
    return False


def reaches_other_machines(kind: str) -> bool:
    """Whether other machines may see a file system of this type, or a program plays it."""
    return kind.startswith(_REMOTE) or "fuse" in kind


def usual_mode() -> int:
    """Return a mode for the owner alone: the usual one cannot be asked without changing it."""
    return 0o600
