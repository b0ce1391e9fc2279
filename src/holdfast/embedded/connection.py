"""The connection to the embedded file: opening it safely, and transactions that end in time.

Deferred transactions that upgrade fail at once with SQLITE_BUSY_SNAPSHOT whatever the
busy timeout, so every writer begins IMMEDIATE (a single writing statement does so too).
Time is the boot clock of this machine, which no administrator can set, shifted once per
boot so that it looks like the wall's and never falls behind a token that was given before.
"""

from __future__ import annotations

import sqlite3
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from holdfast.embedded.filesystem import refuse_network
from holdfast.embedded.presence import Presence
from holdfast.embedded.rows import APPLICATION_ID, FORMAT, SCHEMA
from holdfast.errors import (
    BackendMisbehaved,
    BackendUnavailable,
    ConfigurationError,
    LockError,
    OutcomeUnknown,
)
from holdfast.runtime import forking

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from holdfast.runtime.clock import Clock

T = TypeVar("T")

OLDEST_SQLITE = (3, 35, 0)
"""The first with RETURNING."""


class Connection:
    """One client's connection; its calls come one at a time."""

    def __init__(self, path: Path, *, clock: Clock, create: bool, synchronous: str) -> None:
        self.path = path
        self.presence: Presence | None = None
        self._clock = clock
        self._create_directory = create
        self._synchronous = synchronous
        self._sqlite: sqlite3.Connection | None = None
        self._shift = 0.0
        forking.forget_in_child(self)

    def now(self) -> float:
        """Return the store's time."""
        return self._clock.now() + self._shift

    # -- transactions ------------------------------------------------------------------

    def execute(self, statement: str, values: Sequence[object] = ()) -> sqlite3.Cursor:
        """Run one statement."""
        return self._opened().execute(statement, values)

    def execute_many(self, statement: str, rows: Iterable[Sequence[object]]) -> None:
        """Run one statement for each row."""
        self._opened().executemany(statement, rows)

    def transact(self, work: Callable[[], T], deadline: float) -> T:
        """Do the work in one IMMEDIATE transaction, or raise and do nothing of it."""
        self.patiently(self._begin, deadline)
        try:
            answer = work()
        except sqlite3.Error as error:
            self._roll_back()
            raise self._translated(error) from error
        except BaseException:
            # An interrupt must not leave the file locked.
            self._roll_back()
            raise
        try:
            self.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back()
            raise OutcomeUnknown(
                f"{self.path}: the commit failed, and may count or not: {error}"
            ) from error
        return answer

    def patiently(self, work: Callable[[], T], deadline: float) -> T:
        """Do a read or a single statement, again and again while others lock the file."""
        pause = 0.0001
        while True:
            try:
                return work()
            except sqlite3.OperationalError as error:
                if not _is_busy(error) or self._clock.now() >= deadline:
                    raise self._translated(error) from error
                # Transactions here take some 20 µs, so the first waits are short; SQLite's
                # own busy handler would begin with a millisecond.
                time.sleep(pause)
                pause = min(pause * 2, 0.005)
            except sqlite3.Error as error:
                raise self._translated(error) from error

    def _begin(self) -> None:
        self.execute("BEGIN IMMEDIATE")

    def _roll_back(self) -> None:
        if self._sqlite is not None and self._sqlite.in_transaction:
            try:
                self._sqlite.execute("ROLLBACK")
            except sqlite3.Error:
                # The first error is the one to tell; closing rolls back in any case.
                self.close()

    def _opened(self) -> sqlite3.Connection:
        if self._sqlite is None:
            raise BackendUnavailable(f"{self.path} is not open")
        return self._sqlite

    # -- opening and closing -----------------------------------------------------------

    def open(self, deadline: float) -> Presence:
        """Open the file if it is not open, and return who is alive around it."""
        if self.presence is not None:
            return self.presence
        self._check_path()
        presence: Presence | None = None
        try:
            self._sqlite = sqlite3.connect(
                self.path, timeout=0, isolation_level=None, check_same_thread=False
            )
            # Before anything is made beside it: it may be somebody else's file.
            self.patiently(self._identify, deadline)
            presence = Presence(self.path)
            self._prepare(presence, deadline)
        except BaseException as error:
            if presence is not None:
                presence.leave()
            self.close()
            if isinstance(error, sqlite3.Error):
                raise self._translated(error) from error
            if isinstance(error, OSError) and not isinstance(error, LockError):
                raise ConfigurationError(
                    f"{self.path}: {error.strerror or error}; choose a path that this user "
                    "may write (sqlite:///…)"
                ) from error
            raise
        self.presence = presence
        return presence

    def close(self) -> None:
        """Close the file and be gone; it opens again when it is used."""
        if self._sqlite is not None:
            self._sqlite.close()
            self._sqlite = None
        if self.presence is not None:
            self.presence.leave()
            self.presence = None

    def after_fork_in_child(self) -> None:
        """Let go of what the parent uses.

        SQLite counts its file locks per process. Left open, the copy would make the child
        believe that it has the locks which only the parent has: the parent, closing as if
        it were the last, deletes the write-ahead log under the child. Between two calls
        (see Worker.before_fork) closing the copy frees nothing of the parent's.
        """
        if self._sqlite is not None:
            self._sqlite.close()
            self._sqlite = None
        if self.presence is not None:
            self.presence.let_go()
            self.presence = None

    def _check_path(self) -> None:
        if sys.platform != "linux":
            raise ConfigurationError(
                "the embedded database needs Linux (boot clock and file locks); "
                "use a server, or memory:// in tests"
            )
        if sqlite3.sqlite_version_info < OLDEST_SQLITE:
            raise ConfigurationError(
                f"this Python has SQLite {sqlite3.sqlite_version}; 3.35 or newer is needed"
            )
        directory = self.path.parent
        refuse_network(directory)
        if self._create_directory:
            try:
                directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as error:
                raise ConfigurationError(
                    f"{directory} cannot be created ({error.strerror}); set XDG_STATE_HOME, or "
                    "name a file: sqlite:///path/to/locks.db"
                ) from error
        if not directory.is_dir():
            raise ConfigurationError(f"{directory} is not a directory; create it first")
        if self.path.is_dir():
            raise ConfigurationError(f"{self.path} is a directory; name a file in it")

    def _prepare(self, presence: Presence, deadline: float) -> None:
        is_alone = presence.try_alone()
        if not is_alone:
            presence.share()
        self.patiently(lambda: self.execute("PRAGMA journal_mode = WAL"), deadline)
        self.execute(f"PRAGMA synchronous = {self._synchronous}")
        self.transact(lambda: self._adopt(is_alone=is_alone), deadline)
        presence.share()

    def _identify(self) -> None:
        # The tables first: once they are seen, so is what was written along with them.
        tables = self.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
        application = self.execute("PRAGMA application_id").fetchone()[0]
        version = self.execute("PRAGMA user_version").fetchone()[0]
        if tables and application != APPLICATION_ID:
            raise ConfigurationError(
                f"{self.path} is a database of another program; name a file of Holdfast's own"
            )
        if version > FORMAT:
            raise ConfigurationError(
                f"{self.path} was written by a newer Holdfast (format {version}, this one "
                f"knows {FORMAT}); upgrade this program"
            )

    def _adopt(self, *, is_alone: bool) -> None:
        if not self.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
            for statement in SCHEMA:
                self.execute(statement)
        boot, offset = _boot_id(), _time_namespace_offset()
        row = self.execute("SELECT boot, epoch, floor FROM meta").fetchone()
        if row is not None and row[0] == boot:
            self._shift = row[1] - offset
            return
        if row is not None and not is_alone:
            raise ConfigurationError(
                f"{self.path} is in use by another kernel (a virtual machine or another host "
                "sees the same disk); give each machine a file of its own, or use a server"
            )
        # A new boot: whoever held or waited died with the old one. Tokens live on.
        last = self.execute("SELECT max(last_token) FROM places").fetchone()[0] or 0
        last = max(last, row[2] if row is not None else 0)
        self.execute("DELETE FROM places WHERE arrived > 0")
        self.execute("UPDATE places SET id = '', client = '', owner = '', party = NULL")
        epoch = max(time.time(), last / 1_000_000 + 1) - (self._clock.now() - offset)
        self.execute("DELETE FROM meta")
        self.execute("INSERT INTO meta VALUES (?, ?, ?)", (boot, epoch, last))
        self._shift = epoch - offset

    def _translated(self, error: sqlite3.Error) -> LockError:
        kind = getattr(error, "sqlite_errorname", "")
        if _is_busy(error):
            return BackendUnavailable(f"{self.path} stayed locked by others: {error}")
        if kind.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH")):
            return ConfigurationError(
                f"{self.path}: {error}; the file and its directory must be writable"
            )
        if kind.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
            return ConfigurationError(
                f"{self.path}: {error}; move the file away, and Holdfast makes a new one"
            )
        if kind.startswith(("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_NOMEM")):
            return BackendUnavailable(f"{self.path}: {error}")
        return BackendMisbehaved(f"{self.path}: {error}")


def _is_busy(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorname", "").startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _time_namespace_offset() -> float:
    """Return how far this process's boot clock was set ahead of the machine's own."""
    try:
        lines = Path("/proc/self/timens_offsets").read_text().splitlines()
    except OSError:
        return 0.0
    for line in lines:
        clock, seconds, nanoseconds = line.split()
        if clock == "boottime":
            return int(seconds) + int(nanoseconds) / 1e9
    return 0.0
