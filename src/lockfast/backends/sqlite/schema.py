"""The table in the file: one row per claim, and a record in row 0.

All rows are in one table, and so in one tree, so that a grant touches one page. Row 0 of a key
stays when all claims have left, because it keeps the capacity and the last token. The first claim
at an empty door is stored in that row itself, so that an uncontended lock is one row from end to
end.
"""

from __future__ import annotations

import sqlite3
import time
from typing import TYPE_CHECKING

from lockfast.backends.sqlite.descriptor import refuse_network, refuse_second_path
from lockfast.backends.sqlite.errors import is_shortage
from lockfast.errors import ConfigurationError
from lockfast.platforms import here

if TYPE_CHECKING:
    from pathlib import Path

    from lockfast.backends.sqlite.connection import SqliteConnection
    from lockfast.runtime.clock import Clock

FILE_FORMAT = 1
APPLICATION_ID = 0x4C6F636B  # "Lock"

SCHEMA = (
    "CREATE TABLE meta (boot TEXT NOT NULL, epoch REAL NOT NULL, floor INTEGER NOT NULL)",
    """CREATE TABLE places (
        key BLOB NOT NULL, arrived INTEGER NOT NULL, id TEXT NOT NULL, client TEXT NOT NULL,
        owner TEXT NOT NULL, party TEXT, weight INTEGER NOT NULL, ttl REAL NOT NULL,
        lock_delay REAL NOT NULL, min_hold REAL NOT NULL, standing INTEGER NOT NULL,
        until REAL NOT NULL, since REAL NOT NULL, token INTEGER NOT NULL, bell TEXT NOT NULL,
        capacity INTEGER NOT NULL, last_token INTEGER NOT NULL,
        PRIMARY KEY (key, arrived)
    ) WITHOUT ROWID""",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {FILE_FORMAT}",
)

# The page size of a new file. Each commit writes whole pages, and a record takes some 300 bytes, so
# most of a page of SQLite's default size, 4096 bytes, would be written needlessly. On a smaller
# page, such a record would not fit without an overflow page.
PAGE_SIZE = 2048

# The index is for long lines, of which a verb reads only the entries inside and the front. Row 0 is
# not in the index, so that an uncontended lock need not update the index. A file of an older
# version gets the index too.
INDEX = """CREATE INDEX IF NOT EXISTS standings ON places (key, standing, arrived)
    WHERE arrived > 0"""

# Adopts a file: checks that the file is ours and that this boot may use it, and sets the store's
# time.
#
# The store's time is this machine's clock since its boot, which no administrator can set. It is
# shifted once per boot, so that it is close to wall-clock time and never behind a token that was
# granted before.

OLDEST_SQLITE = (3, 35, 0)
"""The oldest accepted version of SQLite; older versions were never tested."""


def check_path(path: Path, *, create_directory: bool) -> None:
    """Raise if no lock file can be at this path; create the directory if requested."""
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


def identify(connection: SqliteConnection) -> None:
    """Raise if the file belongs to another program, or has a newer format."""
    # Read the tables first, because the ids were written in the same transaction: if we see the
    # tables, we also see the ids.
    tables = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if tables and application != APPLICATION_ID:
        raise ConfigurationError(
            f"{connection.path} is a database of another program; name a file of Lockfast's own"
        )
    if version > FILE_FORMAT:
        raise ConfigurationError(
            f"{connection.path} was written by a newer Lockfast (format {version}, this one "
            f"knows {FILE_FORMAT}); upgrade this program"
        )


def adopt(connection: SqliteConnection, *, clock: Clock, is_alone: bool) -> float:
    """Adopt the file for this boot; return how far the store's time is ahead of our clock.

    Call it in a transaction.
    """
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
    # This is a new boot, so all holders and waiters died with the old boot. Keep only the tokens.
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
        # The system is at fault, not the path, so another path would not help.
        raise ConfigurationError(
            f"{path} cannot be used, because this system does not say when it was booted "
            f"({error}), so leases from before a reboot could not be told from current ones; on "
            "Linux, mount /proc"
        ) from error
