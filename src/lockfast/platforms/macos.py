"""macOS: a clock that counts sleep, the boot id, and what statfs reports about a volume."""

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
    HAS_NO_WAIT,
    IS_POSIX,
    NO_WAIT,
    READ,
    UNIX_FAMILY,
    WRITE,
    Poll,
    at_fork,
    lock_exclusive,
    lock_shared,
    path_of_url,
    remove_unless_locked,
    sync_directory,
    try_lock_exclusive,
    try_lock_shared,
    unlock,
    yield_processor,
)

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

NAME = "macOS"

# CLOCK_MONOTONIC_RAW counts sleep. On macOS, CLOCK_MONOTONIC does so too, but `time.monotonic()`
# does not. Unlike these two, CLOCK_MONOTONIC_RAW is unaffected when the wall clock is set or
# slewed; see clock_gettime(3).
now: Callable[[], float] = partial(time.clock_gettime, time.CLOCK_MONOTONIC_RAW)

# struct statfs with 64-bit inodes, sys/mount.h: the flags are at byte 64, the type at 72.
_STATFS_SIZE = 2168
_FLAGS_AND_TYPE = struct.Struct("@64xI4x16s")
_MNT_LOCAL = 0x1000

_REMOTE = "network "
"""Prefix for the type of a volume that is not local to this machine."""


def boot_id() -> str:
    """Return an id of this boot, which no other boot of any machine has."""
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(64)
    size = ctypes.c_size_t(len(buffer))
    # kern.boottime would change when the clock is set.
    if libc.sysctlbyname(b"kern.bootsessionuuid", buffer, ctypes.byref(size), None, 0):
        number = ctypes.get_errno()
        raise OSError(number, f"kern.bootsessionuuid: {os.strerror(number)}")
    return buffer.value.decode("ascii")


def clock_offset() -> float:
    """Return 0, because a process on macOS has no clock offset of its own."""
    return 0.0


def state_directory() -> Path:
    """Return the directory for a user's persistent program state."""
    return Path.home() / ".local" / "state"


def file_system(directory: Path) -> str:
    """Return the type of the file system under the directory, or "" if unknown."""
    libc = ctypes.CDLL(None, use_errno=True)
    # On Intel, the plain name `statfs` predates 64-bit inodes and uses another structure.
    statfs = getattr(libc, "statfs$INODE64", None) or libc.statfs
    buffer = ctypes.create_string_buffer(_STATFS_SIZE)
    place = directory.resolve()
    while statfs(os.fsencode(place), buffer):
        if place == place.parent:
            return ""
        place = place.parent  # the directory does not exist yet, so try its parent
    flags, kind = _FLAGS_AND_TYPE.unpack_from(buffer.raw)
    name: str = kind.partition(b"\0")[0].decode("ascii", "replace")
    return name if flags & _MNT_LOCAL else _REMOTE + name


def is_mount_point(file: Path) -> bool:
    """Return False, because macOS mounts only directories."""
    del file
    return False


def is_shared_file_system(kind: str) -> bool:
    """Return whether other machines may see such a file system, or a program implements it."""
    return kind.startswith(_REMOTE) or "fuse" in kind


def default_file_mode() -> int:
    """Return an owner-only mode, because macOS does not show the umask without changing it."""
    return 0o600
