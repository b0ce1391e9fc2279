"""Making a file ours: whose it is, whether this boot may use it, and what time it is in it.

Time is the clock of this machine since its boot, which no administrator can set, shifted once per
boot so that it looks like the wall's and never falls behind a token that was given before.
"""

from __future__ import annotations

import sqlite3
import time
from typing import TYPE_CHECKING

from lockfast.backends.sqlite.failures import is_shortage
from lockfast.backends.sqlite.filesystem import refuse_network, refuse_second_path
from lockfast.backends.sqlite.schema import APPLICATION_ID, FORMAT, INDEX, SCHEMA
from lockfast.errors import ConfigurationError
from lockfast.platforms import here

if TYPE_CHECKING:
    from pathlib import Path

    from lockfast.backends.sqlite.connection import Connection
    from lockfast.runtime.clock import Clock

OLDEST_SQLITE = (3, 35, 0)
"""Older ones were never tried."""


def check_path(path: Path, *, create_directory: bool) -> None:
    """Raise where no file of ours can be; make its directory if that is wanted."""
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise ConfigurationError(
            f"this Python has SQLite {sqlite3.sqlite_version}; 3.35 or newer is needed"
        )
    directory = path.parent
    refuse_network(directory)
    if create_directory:
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(
                f"{directory} cannot be created ({error.strerror}); set XDG_STATE_HOME, or "
                "name a file: sqlite:///path/to/locks.db"
            ) from error
    if not directory.is_dir():
        raise ConfigurationError(f"{directory} is not a directory; create it first")
    if path.is_dir():
        raise ConfigurationError(f"{path} is a directory; name a file in it")
    refuse_second_path(path)


def identify(connection: Connection) -> None:
    """Raise if the file is somebody else's, or of a newer format."""
    # The tables first: once they are seen, so is what was written along with them.
    tables = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if tables and application != APPLICATION_ID:
        raise ConfigurationError(
            f"{connection.path} is a database of another program; name a file of Lockfast's own"
        )
    if version > FORMAT:
        raise ConfigurationError(
            f"{connection.path} was written by a newer Lockfast (format {version}, this one "
            f"knows {FORMAT}); upgrade this program"
        )


def adopt(connection: Connection, *, clock: Clock, is_alone: bool) -> float:
    """Return how far the store's time is ahead of our clock; call it in a transaction."""
    if not connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
        for statement in SCHEMA:
            connection.execute(statement)
    connection.execute(INDEX)
    boot, offset = _boot_of(connection.path), here.clock_offset()
    row = connection.execute("SELECT boot, epoch, floor FROM meta").fetchone()
    if row is not None and row[0] == boot:
        return float(row[1] - offset)
    if row is not None and not is_alone:
        raise ConfigurationError(
            f"{connection.path} is in use by another kernel (a virtual machine or another host "
            "sees the same disk); give each machine a file of its own, or use a server"
        )
    # A new boot: whoever held or waited died with the old one. Tokens live on.
    last = connection.execute("SELECT max(last_token) FROM places").fetchone()[0] or 0
    last = max(last, row[2] if row is not None else 0)
    connection.execute("DELETE FROM places WHERE arrived > 0")
    connection.execute("UPDATE places SET id = '', client = '', owner = '', party = NULL")
    epoch: float = max(time.time(), last / 1_000_000 + 1) - (clock.now() - offset)
    connection.execute("DELETE FROM meta")
    connection.execute("INSERT INTO meta VALUES (?, ?, ?)", (boot, epoch, last))
    return epoch - offset


def _boot_of(path: Path) -> str:
    try:
        return here.boot_id()
    except OSError as error:
        if is_shortage(error):
            raise
        # Not the path's fault, and no other path would help.
        raise ConfigurationError(
            f"{path} cannot be used, because this system does not say when it was booted "
            f"({error}), so leases from before a reboot could not be told from current ones; on "
            "Linux, mount /proc"
        ) from error
