"""SQLite URLs, the default file, and the file systems that are refused."""

from __future__ import annotations

import functools
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from lockfast.core.descriptor import StoreDescriptor
from lockfast.errors import ConfigurationError
from lockfast.platforms import here

if TYPE_CHECKING:
    from urllib.parse import SplitResult


# The default place of the embedded database, and the file systems that it must not be on.


def default_path() -> Path:
    """Return the default file, which all processes of one user on one machine share."""
    state = os.environ.get("XDG_STATE_HOME") or ""
    # The XDG rules require that a relative path be ignored.
    root = Path(state) if os.path.isabs(state) else _state_directory()  # noqa: PTH117
    return root / "lockfast" / "locks.db"


def _state_directory() -> Path:
    try:
        return here.state_directory()
    except RuntimeError as error:
        # For example, the process runs in a container with an empty environment, under a user id
        # that is not in the user database.
        raise ConfigurationError(
            "this user has no home directory for the default file; set HOME or XDG_STATE_HOME, "
            "or name a file: sqlite:///path/to/locks.db"
        ) from error


def real_path(path: Path) -> Path:
    """Return the path with all symbolic links resolved."""
    return Path(os.path.realpath(path))  # resolve() raises if the links form a loop


def refuse_network(directory: Path) -> None:
    """Raise if the directory is on a network or FUSE file system.

    SQLite's WAL needs memory that all processes share, and file locks that can be trusted. On such
    file systems two machines could each hold the lock.
    """
    kind = here.file_system(directory)
    if here.is_shared_file_system(kind):
        raise ConfigurationError(
            f"{directory} is on a {kind} file system, where SQLite cannot exclude other "
            "machines; choose a local path (sqlite:///…) or a server, such as redis://"
        )


def refuse_second_path(path: Path) -> None:
    """Raise if other processes may open the file through a path other than this real path.

    SQLite keeps its log beside the path by which it opened the file, and we keep the presence files
    there. Two processes that use two paths do not see each other's log and presence files, so both
    could hold a lock. Hence a file may have only one path. Symbolic links are resolved, and
    everything is kept beside their target. Hard links, and mounts of the file without its
    directory, are refused.
    """
    try:
        links = path.stat().st_nlink
    except FileNotFoundError:
        return  # the file does not exist yet
    if links > 1:
        raise ConfigurationError(
            f"{path} has {links} names (hard links), and processes that open it by different names "
            "would not exclude each other; remove the other links, or use a symbolic link"
        )
    if here.is_mount_point(path):
        raise ConfigurationError(
            f"{path} is mounted by itself, without its directory, so SQLite's log next to it would "
            "not be shared, and both sides could hold a lock at once; mount the directory instead "
            f"(docker run -v /host/directory:{path.parent})"
        )


def is_container() -> bool:
    """Return whether we seem to be in a container, whose files other containers do not see."""
    return (
        Path("/.dockerenv").exists()
        or Path("/run/.containerenv").exists()
        or "KUBERNETES_SERVICE_HOST" in os.environ
    )


_log = logging.getLogger("lockfast")

# The URLs of the embedded database, which name a file or mean the default file.

REACH = "excludes only processes of this user on this machine"


def file_or_default(url: SplitResult, namespace: str) -> dict[str, Any]:
    """Return the file to open, and log its path if the URL does not name one."""
    if url.netloc:
        raise ConfigurationError(
            "sqlite:// takes no host: write sqlite:///absolute/path.db or sqlite:relative.db"
        )
    path = named_file(url)
    if path is not None:
        return {"path": path, "namespace": namespace}
    chosen = default_path()
    # Log the path for each client, because the first question after a surprise is "which file?".
    _log.info("embedded locks: %s %s", chosen, REACH)
    if is_container():
        warn_of_container(chosen)
    return {"path": chosen, "namespace": namespace, "create_directory": True}


@functools.cache
def warn_of_container(chosen: Path) -> None:
    """Warn about the container once per process, even if a program makes a client per request."""
    _log.warning("embedded locks in a container: %s %s and in this container", chosen, REACH)


def named_file(url: SplitResult) -> Path | None:
    """Return the file that the URL names; None means the default."""
    path = unquote(url.path)
    if not path or path == "/":
        return None
    return Path(here.path_of_url(path)).absolute()


DESCRIPTOR = StoreDescriptor(
    backend="SqliteBackend",
    schemes={"sqlite": "sqlite:///path/to/locks.db"},
    arguments=file_or_default,
    named_file=named_file,
)
