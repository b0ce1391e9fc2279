"""What SQLite's errors mean to the one who asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import BackendMisbehaved, BackendUnavailable, ConfigurationError

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

    from holdfast.errors import LockError


def is_busy(error: sqlite3.Error) -> bool:
    """Whether somebody else just writes, so that asking again helps."""
    return getattr(error, "sqlite_errorname", "").startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))


def translated(error: sqlite3.Error, path: Path) -> LockError:
    """Return the error of ours that says the same."""
    kind = getattr(error, "sqlite_errorname", "")
    if is_busy(error):
        return BackendUnavailable(f"{path} stayed locked by others: {error}")
    if kind.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH")):
        return ConfigurationError(f"{path}: {error}; the file and its directory must be writable")
    if kind.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
        return ConfigurationError(
            f"{path}: {error}; move the file away, and Holdfast makes a new one"
        )
    if kind.startswith(("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_NOMEM")):
        return BackendUnavailable(f"{path}: {error}")
    return BackendMisbehaved(f"{path}: {error}")
