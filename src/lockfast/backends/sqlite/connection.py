"""The connection to the embedded file: opening it, and transactions that end in time.

Deferred transactions that upgrade fail at once with SQLITE_BUSY_SNAPSHOT whatever the
busy timeout, so every writer begins IMMEDIATE (a single writing statement does so too).

An interrupt may strike between any two instructions of the sync flavour, and a transaction
that stayed open would shut every process out of the file. So SQLite alone is asked whether
one is open: whoever leaves ends it, and whoever comes and finds one that nobody is in too.
"""

from __future__ import annotations

import os
import sqlite3
import time
from typing import TYPE_CHECKING, NoReturn, TypeVar

from lockfast.backends.sqlite.failures import is_busy, is_shortage, translated
from lockfast.backends.sqlite.filesystem import real_path
from lockfast.backends.sqlite.gates import gate_of
from lockfast.backends.sqlite.ownership import adopt, check_path, identify
from lockfast.backends.sqlite.presence import Presence
from lockfast.backends.sqlite.schema import PAGE_SIZE
from lockfast.errors import BackendUnavailable, ConfigurationError, LockError, OutcomeUnknown
from lockfast.runtime import forking

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from lockfast.runtime.clock import Clock

T = TypeVar("T")

LOOKS_EVERY = 1.0
"""So often at most it is looked whether the file that is open is still the one at its path."""


class Connection:
    """One client's connection; its calls come one at a time.

    Except for those that a finalizer or a signal handler makes on the very thread that is
    inside: between two statements they are welcome, in a transaction `open` refuses them, and
    `refuse_inside_another` those by another client of the file.
    """

    def __init__(self, path: Path, *, clock: Clock, create: bool, synchronous: str) -> None:
        self.path = path
        # Where symbolic links lead to; looked up again when the file is, as they may be changed.
        self._real = real_path(path)
        self.presence: Presence = Presence(self._real)
        self._clock = clock
        self._create_directory = create
        self._synchronous = synchronous
        self._sqlite: sqlite3.Connection | None = None
        self._gate = gate_of(self._real)
        self._shift = 0.0
        self._file: os.stat_result | None = None
        self._looked_at = 0.0
        forking.forget_in_child(self)

    @property
    def is_inside(self) -> bool:
        """Whether this thread is in the middle of a transaction of this very connection."""
        return self._gate.inside.connection is self

    def refuse_inside_another(self) -> None:
        """Raise if this thread is in the middle of a transaction of another client of the file.

        Call it before anything is waited for: whoever waits for that transaction waits for itself,
        and everybody else, whose leases run out, for both.
        """
        if self._gate.inside.connection not in (None, self):
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
        """Return a moment of the store's time by our own clock."""
        return moment - self._shift

    # -- transactions ------------------------------------------------------------------

    def execute(self, statement: str, values: Sequence[object] = ()) -> sqlite3.Cursor:
        """Run one statement."""
        return self._opened().execute(statement, values)

    def execute_many(self, statement: str, rows: Iterable[Sequence[object]]) -> None:
        """Run one statement for each row."""
        self._opened().executemany(statement, rows)

    def transact(self, work: Callable[[], T], deadline: float) -> T:
        """Do the work in one IMMEDIATE transaction, or raise and do nothing of it."""
        inside = self._gate.inside
        before, inside.connection = inside.connection, self
        try:
            answer = self._gate.pass_through(
                lambda: self._transact(work, deadline), deadline, self._clock
            )
        finally:
            inside.connection = before
        return answer

    def write(self, statement: str, values: Sequence[object], deadline: float) -> int:
        """Run one statement that writes, a transaction of its own; how many rows it changed."""
        # An uncontended lock is two of these, so first without anything that could be spared.
        mutex = self._gate.mutex
        try:
            if mutex.acquire(blocking=False):
                written = self._opened().execute(statement, values).rowcount
                return written  # noqa: RET504 - an interrupt after the call is inside the block
        except sqlite3.Error:
            pass  # somebody is writing, most likely
        finally:
            try:  # noqa: SIM105 - as in Gate.pass_through
                mutex.release()
            except RuntimeError:
                pass
        return self._gate.pass_through(
            lambda: self.patiently(lambda: self.execute(statement, values).rowcount, deadline),
            deadline,
            self._clock,
        )

    def patiently(self, work: Callable[[], T], deadline: float) -> T:
        """Do a read or a single statement, again and again while others lock the file."""
        pause = 0.0001
        while True:
            try:
                return work()
            except sqlite3.OperationalError as error:
                if not is_busy(error) or self._clock.now() >= deadline:
                    raise translated(error, self.path) from error
                # Transactions here take some 20 µs, so the first waits are short; SQLite's
                # own busy handler would begin with a millisecond.
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
            # Closing rolls back in any case, and the first error is the one to tell. Only the
            # connection: we are alive, and must not look dead to those who wait for us.
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
        """Be ready for a call, open and announced, and return who is alive around the file."""
        inside = self._gate.inside
        if inside.connection is not None:
            self._refuse_inside()
        sqlite, presence = self._sqlite, self.presence
        if (
            sqlite is None
            or sqlite.in_transaction
            or (client and not presence.is_announced(client))
            # By the deadlines, which are all about as far away: no clock is asked for it.
            or not self._looked_at <= deadline < self._looked_at + LOOKS_EVERY
        ):
            inside.connection = self
            try:
                self._end_transaction()
                self._make_ready(client, deadline)
            finally:
                inside.connection = None
        return presence

    def _come_back(self, deadline: float) -> None:
        """Let go of files that somebody removed or replaced: all others use those at the path.

        Else we would hold what we took in a file of our own, for as long as this process lives.
        """
        self._looked_at = deadline
        if self._sqlite is not None and not self._is_at_its_path():
            # SQLite sees it too, and leaves alone what is called like its log beside the path.
            self._disconnect()
        self._real = real_path(self.path)
        self._gate = gate_of(self._real)
        self.presence.stand_beside(self._real)
        self.presence.come_back()

    def _is_at_its_path(self) -> bool:
        try:
            found = self._found()
        except OSError:
            return True  # nobody can tell
        return bool(found and self._file and os.path.samestat(self._file, found))

    def _found(self) -> os.stat_result | None:
        try:
            return self.path.stat()
        except FileNotFoundError:
            return None

    def _make_ready(self, client: str, deadline: float) -> None:
        try:
            self._come_back(deadline)
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
            # Before: of one that is replaced right now the next look tells.
            self._file = self._found()
            self._sqlite = sqlite3.connect(
                self._real, timeout=0, isolation_level=None, check_same_thread=False
            )
            # Before anything is made beside it: it may be somebody else's file.
            self.patiently(lambda: identify(self), deadline)
            is_alone = self.presence.come()
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
        """Close the file and be gone; it opens again when it is used."""
        self._disconnect()
        self.presence.leave()

    def _disconnect(self) -> None:
        sqlite, self._sqlite = self._sqlite, None
        if sqlite is not None:
            sqlite.close()

    def after_fork_in_child(self) -> None:
        """Let go of what the parent uses.

        SQLite counts its file locks per process. Left open, the copy would make the child
        believe that it has the locks which only the parent has: the parent, closing as if
        it were the last, deletes the write-ahead log under the child. Between two calls
        (see Turn.pause) closing the copy frees nothing of the parent's.
        """
        self._gate = gate_of(self._real)
        self._disconnect()
        self.presence.let_go()
