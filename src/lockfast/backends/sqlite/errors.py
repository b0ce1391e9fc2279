"""Maps SQLite's errors to ours."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from lockfast.errors import BackendMisbehaved, BackendUnavailable, ConfigurationError

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

    from lockfast.errors import LockError


DESCRIPTORS = 4
"""Number of descriptors that SQLite needs to open a file: for the file, its log, its shared memory
and its directory."""


def is_shortage(error: OSError) -> bool:
    """Return whether this process or machine has no descriptor left.

    A lack of descriptors is an outage, not a misconfiguration.
    """
    return error.errno in (errno.EMFILE, errno.ENFILE)


def _shortage() -> str:
    """Return the system's message if no descriptors are left, because SQLite drops it."""
    opened: list[int] = []
    try:
        for _ in range(DESCRIPTORS):
            opened.append(os.open(os.devnull, os.O_RDONLY))  # noqa: PERF401 - all must be closed
    except OSError as error:
        return str(error.strerror) if is_shortage(error) else ""
    else:
        return ""
    finally:
        for one in opened:
            os.close(one)


def is_busy(error: sqlite3.Error) -> bool:
    """Return whether the error is that another connection is writing, so that a retry helps."""
    return getattr(error, "sqlite_errorname", "").startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))


def translated(error: sqlite3.Error, path: Path) -> LockError:
    """Return the LockError for an error of SQLite."""
    kind = getattr(error, "sqlite_errorname", "")
    if is_busy(error):
        return BackendUnavailable(f"{path} stayed locked by others: {error}")
    if kind.startswith("SQLITE_CANTOPEN") and (shortage := _shortage()):
        return BackendUnavailable(f"{path}: {shortage}")
    if kind.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH")):
        return ConfigurationError(f"{path}: {error}; the file and its directory must be writable")
    if kind.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
        return ConfigurationError(
            f"{path}: {error}; move the file away, and Lockfast makes a new one"
        )
    if kind.startswith(("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_NOMEM")):
        return BackendUnavailable(f"{path}: {error}")
    return BackendMisbehaved(f"{path}: {error}")
