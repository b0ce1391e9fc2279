"""The connection to the SQLite file: opens it, and runs transactions that end in time.

A deferred transaction fails at once with SQLITE_BUSY_SNAPSHOT, whatever the busy timeout, if it
begins to write after another transaction has written. So every writing transaction begins
IMMEDIATE, as a single writing statement does too.

In the sync flavour an interrupt may strike between any two instructions, and a transaction that
stayed open would shut every process out of the file. So the code asks SQLite itself whether a
transaction is open, and keeps no flag of its own. Each call ends its own transaction on leaving,
and on entering ends any transaction that an earlier call left open.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from typing import TYPE_CHECKING, NoReturn, TypeVar

from lockfast.backends.sqlite.descriptor import real_path
from lockfast.backends.sqlite.errors import is_busy, is_shortage, translated
from lockfast.backends.sqlite.presence import Presence
from lockfast.backends.sqlite.schema import PAGE_SIZE, adopt, check_path, identify
from lockfast.errors import BackendUnavailable, ConfigurationError, LockError, OutcomeUnknown
from lockfast.runtime import fork

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from lockfast.runtime.clock import Clock

T = TypeVar("T")

# Allows one writer of a file at a time inside this process, so that its clients do not keep
# retrying.
#
# SQLite makes a writer retry while another connection writes. Between processes there is no other
# way, but fifty clients of one process would spend more time on retries than on writing. The mutex
# only reduces retries. SQLite guarantees exclusion, and a call that waits too long for the mutex
# proceeds without it.

MUTEX_WAIT_MIN_SECONDS = 0.25
"""Minimum wait for the mutex, in seconds, even if a call has spent all of its time in its client's
queue."""


class ThreadState(threading.local):
    """The connection on which the current thread has a transaction under way."""

    connection: SqliteConnection | None = None
    """The connection that the thread is opening, or whose transaction it is running; None
    otherwise."""


class WriteMutex:
    """The mutex of one file in one process; the thread that has the mutex may take it again.

    A finalizer or a signal handler may run in the middle of a transaction, and use any client of
    the file. The handler cannot wait for the transaction, because the transaction continues only
    after the handler has returned. So the mutex also records, for all clients of the file, which
    connection a thread is using.
    """

    def __init__(self) -> None:
        self.mutex: threading.RLock = threading.RLock()
        self.inside: ThreadState = ThreadState()

    def run_alone(self, work: Callable[[], T], deadline: float, clock: Clock) -> T:
        """Run the work, with the mutex if that is free before the deadline; return the result."""
        try:
            # Acquire the mutex inside the block, because an interrupt may strike right after the
            # call. The release checks whether this thread has the mutex.
            if not self.mutex.acquire(blocking=False):
                self.mutex.acquire(timeout=max(MUTEX_WAIT_MIN_SECONDS, deadline - clock.now()))
            answer = work()
        finally:
            # The release is the first call in this block, because an interrupt could strike after
            # any earlier call and prevent the release.
            try:  # noqa: SIM105
                self.mutex.release()
            except RuntimeError:
                pass  # the mutex was not acquired
        return answer


# This is module state, because the clients of a file share nothing else. The key includes the
# process, because a mutex that a fork copied may stay locked for ever.
_write_mutexes: weakref.WeakValueDictionary[tuple[int, Path], WriteMutex] = (
    weakref.WeakValueDictionary()
)


def write_mutex_of(path: Path) -> WriteMutex:
    """Return the mutex of the file at this real path."""
    key = (os.getpid(), path)
    write_mutex = _write_mutexes.get(key)
    if write_mutex is None:
        # It does no harm if two threads create a mutex each at the same time.
        write_mutex = _write_mutexes[key] = WriteMutex()
    return write_mutex


FILE_CHECK_SECONDS = 1.0
"""Minimum time between two checks, in seconds, that the open file is still the file at its path."""


class SqliteConnection:
    """One client's connection; one call at a time uses it.

    The exceptions are calls that a finalizer or a signal handler makes on a thread that is already
    in a call. Such a call is allowed between two statements, but not during a transaction: `open`
    refuses the call, and `refuse_inside_another` does so early if the transaction belongs to
    another client.
    """

    def __init__(self, path: Path, *, clock: Clock, create: bool, synchronous: str) -> None:
        self.path = path
        # The path without symbolic links. It is resolved again with every check of the file,
        # because the links may change.
        self._real = real_path(path)
        self.presence: Presence = Presence(self._real)
        self._clock = clock
        self._create_directory = create
        self._synchronous = synchronous
        self._sqlite: sqlite3.Connection | None = None
        self._write_mutex = write_mutex_of(self._real)
        self._shift = 0.0
        self._file: os.stat_result | None = None
        self._looked_at = 0.0
        fork.reset_in_child(self)

    @property
    def is_inside(self) -> bool:
        """Whether this thread is in the middle of a transaction of this connection."""
        return self._write_mutex.inside.connection is self

    def refuse_inside_another(self) -> None:
        """Raise if this thread is in the middle of a transaction of another client of the file.

        Call this method before waiting for anything. A call that waited for that transaction would
        wait for its own thread, and all other clients of the file would have to wait while their
        leases run out.
        """
        if self._write_mutex.inside.connection not in (None, self):
            self._refuse_inside()

    def _refuse_inside(self) -> NoReturn:
        raise BackendUnavailable(
            f"{self.path}: a signal handler or a finalizer used it in the middle of a "
            "transaction of the same thread; try again outside of that handler"
        )

    def now(self) -> float:
        """Return the store's time."""
        return self._clock.now() + self._shift

    def local(self, moment: float) -> float:
        """Convert a moment of the store's time to our own clock."""
        return moment - self._shift

    # -- transactions ------------------------------------------------------------------

    def execute(self, statement: str, values: Sequence[object] = ()) -> sqlite3.Cursor:
        """Run one statement."""
        return self._opened().execute(statement, values)

    def execute_many(self, statement: str, rows: Iterable[Sequence[object]]) -> None:
        """Run one statement for each row."""
        self._opened().executemany(statement, rows)

    def transact(self, work: Callable[[], T], deadline: float) -> T:
        """Run the work in one IMMEDIATE transaction; roll it back if the work raises."""
        inside = self._write_mutex.inside
        before, inside.connection = inside.connection, self
        try:
            answer = self._write_mutex.run_alone(
                lambda: self._transact(work, deadline), deadline, self._clock
            )
        finally:
            inside.connection = before
        return answer

    def write(self, statement: str, values: Sequence[object], deadline: float) -> int:
        """Run one writing statement as its own transaction; return how many rows it changed."""
        # An uncontended lock makes two calls of this method, so the first attempt does only the
        # minimum.
        mutex = self._write_mutex.mutex
        try:
            if mutex.acquire(blocking=False):
                written = self._opened().execute(statement, values).rowcount
                return written  # noqa: RET504 - so that an interrupt strikes inside the block
        except sqlite3.Error:
            pass  # most likely another connection is writing
        finally:
            try:  # noqa: SIM105 - as in WriteMutex
                mutex.release()
            except RuntimeError:
                pass
        return self._write_mutex.run_alone(
            lambda: self.patiently(lambda: self.execute(statement, values).rowcount, deadline),
            deadline,
            self._clock,
        )

    def patiently(self, work: Callable[[], T], deadline: float) -> T:
        """Run a read or a single statement; retry while other connections lock the file."""
        pause = 0.0001
        while True:
            try:
                return work()
            except sqlite3.OperationalError as error:
                if not is_busy(error) or self._clock.now() >= deadline:
                    raise translated(error, self.path) from error
                # Transactions here take some 20 µs, so the first pauses are short; SQLite's own
                # busy handler would begin with a millisecond.
                time.sleep(pause)
                pause = min(pause * 2, 0.005)
            except sqlite3.Error as error:
                raise translated(error, self.path) from error

    def _transact(self, work: Callable[[], T], deadline: float) -> T:
        try:
            self.patiently(self._begin, deadline)
            answer = self._committed(work)
        finally:
            self._end_transaction()
        return answer

    def _begin(self) -> None:
        self.execute("BEGIN IMMEDIATE")

    def _committed(self, work: Callable[[], T]) -> T:
        try:
            answer = work()
        except sqlite3.Error as error:
            raise translated(error, self.path) from error
        try:
            self.execute("COMMIT")
        except sqlite3.Error as error:
            raise OutcomeUnknown(
                f"{self.path}: the commit failed, and may count or not: {error}"
            ) from error
        return answer

    def _end_transaction(self) -> None:
        sqlite = self._sqlite
        if sqlite is None or not sqlite.in_transaction:
            return
        try:
            sqlite.execute("ROLLBACK")
        except sqlite3.Error:
            # Close the connection, which also rolls back, and let the caller raise the first error.
            # Keep our side files, because this process is alive and must not look dead to the
            # clients that wait for it.
            self._disconnect()
        except BaseException:
            self._end_transaction()
            raise

    def _opened(self) -> sqlite3.Connection:
        if self._sqlite is None:
            raise BackendUnavailable(f"{self.path} is not open")
        return self._sqlite

    # -- opening and closing -----------------------------------------------------------

    def open(self, deadline: float, *, client: str = "") -> Presence:
        """Open the file and announce the client, if that is not done; return the presence."""
        inside = self._write_mutex.inside
        if inside.connection is not None:
            self._refuse_inside()
        sqlite, presence = self._sqlite, self.presence
        if (
            sqlite is None
            or sqlite.in_transaction
            or (client and not presence.is_announced(client))
            # Compare the deadlines of calls, which are all about equally far away, instead of
            # reading the clock.
            or not self._looked_at <= deadline < self._looked_at + FILE_CHECK_SECONDS
        ):
            inside.connection = self
            try:
                self._end_transaction()
                self._make_ready(client, deadline)
            finally:
                inside.connection = None
        return presence

    def _check_file(self, deadline: float) -> None:
        """Close the file if it was removed or replaced, because other processes use the new file.

        Otherwise this process would keep its locks in a file that nobody else sees.
        """
        self._looked_at = deadline
        if self._sqlite is not None and not self._is_at_its_path():
            # On closing, SQLite notices the replacement too, and does not touch the log files,
            # which may belong to the new file.
            self._disconnect()
        self._real = real_path(self.path)
        self._write_mutex = write_mutex_of(self._real)
        self.presence.use_database(self._real)
        self.presence.announce_again()

    def _is_at_its_path(self) -> bool:
        try:
            found = self._found()
        except OSError:
            return True  # the answer is unknown, so keep the file open
        return bool(found and self._file and os.path.samestat(self._file, found))

    def _found(self) -> os.stat_result | None:
        try:
            return self.path.stat()
        except FileNotFoundError:
            return None

    def _make_ready(self, client: str, deadline: float) -> None:
        try:
            self._check_file(deadline)
            if self._sqlite is None:
                check_path(self._real, create_directory=self._create_directory)
                self._connect(deadline)
            self.presence.announce(client)
        except BaseException as error:
            if not self.presence.is_here:
                self.close()
            if isinstance(error, sqlite3.Error):
                raise translated(error, self.path) from error
            if isinstance(error, OSError) and is_shortage(error):
                raise BackendUnavailable(f"{self.path}: {error.strerror}") from error
            if isinstance(error, OSError) and not isinstance(error, LockError):
                raise ConfigurationError(
                    f"{self.path}: {error.strerror or error}; choose a path that this user "
                    "may write (sqlite:///…)"
                ) from error
            raise

    def _connect(self, deadline: float) -> None:
        try:
            # Record the file before connecting, so that the next check notices if the file is
            # replaced in between.
            self._file = self._found()
            self._sqlite = sqlite3.connect(
                self._real, timeout=0, isolation_level=None, check_same_thread=False
            )
            # Identify the file before creating anything beside it, because the file may belong to
            # another program.
            self.patiently(lambda: identify(self), deadline)
            is_alone = self.presence.lock_boot()
            self.execute(f"PRAGMA page_size = {PAGE_SIZE}")
            self.patiently(lambda: self.execute("PRAGMA journal_mode = WAL"), deadline)
            self.execute(f"PRAGMA synchronous = {self._synchronous}")
            self._shift = self.transact(
                lambda: adopt(self, clock=self._clock, is_alone=is_alone), deadline
            )
            self._file = self._file or self._found()
            self.presence.share()
        except BaseException:
            self._disconnect()
            raise

    def close(self) -> None:
        """Close the file and release our side file; the next use opens both again."""
        self._disconnect()
        self.presence.leave()

    def _disconnect(self) -> None:
        sqlite, self._sqlite = self._sqlite, None
        if sqlite is not None:
            sqlite.close()

    def after_fork_in_child(self) -> None:
        """Close the copy of the parent's connection.

        SQLite counts its file locks per process. If the copy stayed open, SQLite in the child would
        assume locks that only the parent has. The parent, closing as the last user that it can see,
        would then delete the write-ahead log that the child uses. The fork happens between two
        calls (see WorkerTurn.pause), when closing the copy releases none of the parent's locks.
        """
        self._write_mutex = write_mutex_of(self._real)
        self._disconnect()
        self.presence.close_files()
