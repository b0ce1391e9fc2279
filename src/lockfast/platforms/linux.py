"""Linux: the boot clock and its namespaces, the boot id, the mount table."""

from __future__ import annotations

import os
import time
from contextlib import suppress
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

NAME = "Linux"

# CLOCK_MONOTONIC would stop while the machine is suspended.
now: Callable[[], float] = partial(time.clock_gettime, time.CLOCK_BOOTTIME)

_NETWORK = frozenset(
    {
        "9p",
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "coda",
        "davfs",
        "gfs",
        "gfs2",
        "glusterfs",
        "gpfs",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
        "ocfs2",
        "orangefs",
        "pvfs2",
        "smb2",
        "smb3",
        "smbfs",
        "virtiofs",
    }
)


def boot_id() -> str:
    """Return an id of this boot, which no other boot of any machine has."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def clock_offset() -> float:
    """Return how far this process's boot clock is set ahead of the machine's, in seconds."""
    try:
        lines = Path("/proc/self/timens_offsets").read_text().splitlines()
    except OSError:
        return 0.0
    for line in lines:
        clock, seconds, nanoseconds = line.split()
        if clock == "boottime":
            return int(seconds) + int(nanoseconds) / 1e9
    return 0.0


def state_directory() -> Path:
    """Return the directory for a user's persistent program state."""
    return Path.home() / ".local" / "state"


def file_system(directory: Path, *, mounts: str | None = None) -> str:
    """Return the type of the file system under the directory, or "" if unknown."""
    if mounts is None:
        try:
            mounts = Path("/proc/self/mountinfo").read_text(errors="replace")
        except OSError:
            return ""
    real = str(directory.resolve())
    best, kind = "", ""
    for line in mounts.splitlines():
        fields, separator, rest = line.partition(" - ")
        parts = fields.split(" ")
        if not separator or len(parts) < 5:  # noqa: PLR2004 - proc(5): the mount point is fifth
            continue
        point = parts[4].replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
        is_under = real == point or real.startswith(point.rstrip("/") + "/")
        # If two mounts have the same mount point, the later mount is on top.
        if is_under and len(point) >= len(best):
            best, kind = point, rest.split(" ")[0]
    return kind


def is_mount_point(file: Path) -> bool:
    """Return whether the file is itself a mount point, as with a bind mount of a single file."""
    try:
        return _mount_of(file) != _mount_of(file.parent)
    except FileNotFoundError:
        return False  # the file does not exist yet, or there is no /proc


def _mount_of(path: Path) -> str:
    """Return the id of the mount that a path leads to."""
    # Use O_PATH, because closing an ordinary descriptor of a file drops the POSIX locks that this
    # process has on the file, and SQLite needs its locks. Do not use the mount table, because it
    # also lists hidden mounts.
    number = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        facts = Path(f"/proc/self/fdinfo/{number}").read_text()
    finally:
        os.close(number)
    return facts.partition("mnt_id:")[2].partition("\n")[0].strip()


def is_shared_file_system(kind: str) -> bool:
    """Return whether other machines may see such a file system, or a program implements it."""
    return kind in _NETWORK or kind.startswith("fuse")


def default_file_mode() -> int:
    """Return the mode of a new file; Linux shows the umask without changing it."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("Umask:"):
                return 0o666 & ~int(line.split()[1], 8)
    return 0o600
