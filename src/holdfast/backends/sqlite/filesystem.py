"""Which file systems an embedded database must not be put on, and where it lives by default."""

from __future__ import annotations

import os
from pathlib import Path

from holdfast.errors import ConfigurationError
from holdfast.platforms import here


def default_path() -> Path:
    """Return the file that the processes of one user on one machine share."""
    state = os.environ.get("XDG_STATE_HOME") or ""
    # The XDG rules say that a relative path is to be ignored.
    root = Path(state) if os.path.isabs(state) else _state_directory()  # noqa: PTH117
    return root / "holdfast" / "locks.db"


def _state_directory() -> Path:
    try:
        return here.state_directory()
    except RuntimeError as error:
        # A container that runs under a number that nobody entered, with an empty environment.
        raise ConfigurationError(
            "this user has no home directory for the default file; set HOME or XDG_STATE_HOME, "
            "or name a file: sqlite:///path/to/locks.db"
        ) from error


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


def is_container() -> bool:
    """Whether this looks like a container, whose files other containers do not see."""
    return (
        Path("/.dockerenv").exists()
        or Path("/run/.containerenv").exists()
        or "KUBERNETES_SERVICE_HOST" in os.environ
    )
