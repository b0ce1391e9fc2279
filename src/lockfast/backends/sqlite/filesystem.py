"""Which file systems an embedded database must not be put on, and where it lives by default."""

from __future__ import annotations

import os
from pathlib import Path

from lockfast.errors import ConfigurationError
from lockfast.platforms import here


def default_path() -> Path:
    """Return the file that the processes of one user on one machine share."""
    state = os.environ.get("XDG_STATE_HOME") or ""
    # The XDG rules say that a relative path is to be ignored.
    root = Path(state) if os.path.isabs(state) else _state_directory()  # noqa: PTH117
    return root / "lockfast" / "locks.db"


def _state_directory() -> Path:
    try:
        return here.state_directory()
    except RuntimeError as error:
        # A container that runs under a number that nobody entered, with an empty environment.
        raise ConfigurationError(
            "this user has no home directory for the default file; set HOME or XDG_STATE_HOME, "
            "or name a file: sqlite:///path/to/locks.db"
        ) from error


def real_path(path: Path) -> Path:
    """Return where the path leads to once all symbolic links are followed."""
    return Path(os.path.realpath(path))  # resolve() raises where they lead round in a circle


def refuse_network(directory: Path) -> None:
    """Raise if the directory is on a network or FUSE file system.

    SQLite's WAL needs memory that all processes share, and file locks that tell the
    truth. On such file systems two machines could each hold the lock.
    """
    kind = here.file_system(directory)
    if here.reaches_other_machines(kind):
        raise ConfigurationError(
            f"{directory} is on a {kind} file system, where SQLite cannot exclude other "
            "machines; choose a local path (sqlite:///…) or a server, such as redis://"
        )


def refuse_second_path(path: Path) -> None:
    """Raise if the file at this real path may be open by another path as well.

    SQLite keeps its log beside the path by which a file was opened, and we the files that say
    who is alive. Two processes that come by two paths see neither of the other's, so both would
    hold a lock. Hence one file has one path: symbolic links are resolved, and everything stands
    beside the file that they lead to; hard links, and mounts of the file alone, are refused.
    """
    try:
        links = path.stat().st_nlink
    except FileNotFoundError:
        return  # it is yet to be made
    if links > 1:
        raise ConfigurationError(
            f"{path} has {links} names (hard links), and processes that open it by different names "
            "would not exclude each other; remove the other links, or use a symbolic link"
        )
    if here.is_mounted_alone(path):
        raise ConfigurationError(
            f"{path} is mounted by itself, without its directory, so SQLite's log next to it would "
            "not be shared, and both sides could hold a lock at once; mount the directory instead "
            f"(docker run -v /host/directory:{path.parent})"
        )


def is_container() -> bool:
    """Whether this looks like a container, whose files other containers do not see."""
    return (
        Path("/.dockerenv").exists()
        or Path("/run/.containerenv").exists()
        or "KUBERNETES_SERVICE_HOST" in os.environ
    )
