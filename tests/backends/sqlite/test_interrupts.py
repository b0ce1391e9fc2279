"""An interrupt at every point where Python checks for signals leaves the file usable for all.

The points are found by tracing each instruction of the embedded store: Python handles a signal at
the start of a function, after a call and at a backward jump, so interrupts are raised there.
"""

from __future__ import annotations

import dis
import gc
import itertools
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Self

import pytest

import lockfast
from lockfast.backends import sqlite
from lockfast.backends.sqlite.connection import SqliteConnection

ROOM = str(Path(sqlite.__file__).parent)
MOST_POINTS = 3000
BEFORE_A_SIGNAL = {"CALL", "CALL_FUNCTION_EX", "CALL_KW", "JUMP_BACKWARD", "RESUME"}
AFTER_A_FAILURE = "PUSH_EXC_INFO"
"""Python checks for no signal after a call that raised. If an interrupt were raised here, Python
would treat that exception as being handled for as long as the thread lives, and keep all that its
frames refer to."""


class Strike:
    """Raises KeyboardInterrupt once, at the point with this number; counts the points."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._previous: dict[FrameType, str] = {}
        self.seen = 0

    def __enter__(self) -> Self:
        sys.settrace(self._on_call)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)
        self._previous.clear()  # frees everything that the frames refer to

    def _on_call(self, frame: FrameType, _event: str, _argument: object) -> Any:
        is_ours = frame.f_code.co_filename.startswith(ROOM)
        # Python only reports an exception that is raised in a finalizer.
        if not is_ours or frame.f_code.co_name == "__del__":
            return None
        frame.f_trace = self._on_opcode
        frame.f_trace_opcodes = True
        return self._on_opcode

    def _on_opcode(self, frame: FrameType, event: str, _argument: object) -> Any:
        if event != "opcode":
            return self._on_opcode
        before = self._previous.get(frame, "")
        here = self._previous[frame] = name_at(frame.f_code, frame.f_lasti)
        if before in BEFORE_A_SIGNAL and here != AFTER_A_FAILURE:
            self.seen += 1
            if self.seen == self._number:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self._on_opcode


NAMES: dict[CodeType, dict[int, str]] = {}


def name_at(code: CodeType, offset: int) -> str:
    if code not in NAMES:
        NAMES[code] = {one.offset: one.opname for one in dis.get_instructions(code)}
    return NAMES[code].get(offset, "")


class Scene:
    """A name that one client holds and another client wants, with checks from outside."""

    def __init__(self, path: Path) -> None:
        url = f"sqlite://{path}"
        self.path = path
        self.holder, self.locks = lockfast.Locks(url), lockfast.Locks(url)
        self.held = self.holder.lock("door").acquire()
        self.locks.lock("warm").acquire().release()

    def assert_open(self, number: int) -> None:
        """Fail unless another connection can write at once, and both clients still work."""
        with closing(sqlite3.connect(self.path, timeout=1, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            other.execute("ROLLBACK")
        self.locks.lock(f"after {number}").acquire(timeout=20).release()
        self.held.renew()
        assert [one.token for one in self.holder.inspect("door").holders] == [self.held.token]

    def close(self) -> None:
        self.locks.close()
        self.holder.close()


def wait_in_vain(scene: Scene, _number: int) -> None:
    with pytest.raises(lockfast.AcquireTimeout):
        scene.locks.lock("door").acquire(timeout=0.001)


def ask_once(scene: Scene, _number: int) -> None:
    assert scene.locks.lock("door").try_acquire() is None


def cycle(scene: Scene, number: int) -> None:
    scene.locks.lock(f"window {number}").acquire().release()


def share(scene: Scene, number: int) -> None:
    name = f"seats {number}"
    first = scene.holder.semaphore(name, capacity=3).acquire()
    try:
        scene.locks.semaphore(name, capacity=3).acquire().release()
    finally:
        first.release()


def open_anew(scene: Scene, number: int) -> None:
    with lockfast.Locks(f"sqlite://{scene.path}") as locks:
        locks.lock(f"window {number}").acquire().release()


def open_connections() -> int:
    """Return the number of open connections, without those that are garbage."""
    gc.collect()
    return sum(isinstance(one, sqlite3.Connection) and is_open(one) for one in gc.get_objects())


def is_open(connection: sqlite3.Connection) -> bool:
    try:
        return connection.total_changes >= 0
    except sqlite3.ProgrammingError:
        return False


# Python closes a connection that an interrupt drops, and warns of it from 3.13 on.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("work", [wait_in_vain, ask_once, cycle, share, open_anew])
def test_an_interrupt_anywhere_leaves_no_transaction_behind(
    path, work: Callable[[Scene, int], None], eventually
):
    """A client that goes on after an interrupt must not lock others out of the file."""
    before = open_connections()
    scene = Scene(path)
    # From Python 3.12 on, a function is traced by instruction only after that was requested once.
    with Strike(0):
        work(scene, 0)
    for number in itertools.count(1):
        strike = Strike(number)
        with suppress(KeyboardInterrupt), strike:
            work(scene, number)
        assert sys.exception() is None
        scene.assert_open(number)
        if strike.seen < number:
            break
        assert number < MOST_POINTS
    scene.close()
    # Wait here, not in the middle of another test: a thread that cleans up may keep a dropped
    # connection open for a moment.
    eventually(lambda: open_connections() <= before, what="what was dropped is closed")

    assert number > 10


def test_a_transaction_that_nobody_is_in_is_ended_by_the_next_call(path):
    """The next call ends any transaction that interrupted calls or cleanups left open."""
    url = f"sqlite://{path}"
    with lockfast.Locks(url) as locks, lockfast.Locks(url) as other:
        locks.lock("door").acquire().release()
        locks._client.backend._database.connection.execute("BEGIN IMMEDIATE")

        lease = locks.lock("door").acquire(timeout=1)

        assert other.lock("window").try_acquire() is not None
        lease.release()


class FailingRollback:
    """A connection on a disk that fails in the middle of a transaction."""

    def __init__(self, sqlite: sqlite3.Connection) -> None:
        self._sqlite = sqlite

    @property
    def in_transaction(self) -> bool:
        return self._sqlite.in_transaction

    def execute(self, statement: str, *values: Any) -> Any:
        if statement == "ROLLBACK" or statement.lstrip().startswith("SELECT"):
            raise sqlite3.OperationalError("disk I/O error")
        return self._sqlite.execute(statement, *values)

    def close(self) -> None:
        self._sqlite.close()


def test_a_rollback_that_fails_makes_nobody_look_dead(path):
    """Law 2: a process that loses its connection still lives, so its lease stays valid."""
    url = f"sqlite://{path}"
    with lockfast.Locks(url) as locks, lockfast.Locks(url) as other:
        lease = locks.lock("door", ttl=30).acquire()
        connection: SqliteConnection = locks._client.backend._database.connection
        connection._sqlite = FailingRollback(connection._sqlite)
        with pytest.raises(lockfast.LockError):
            locks.break_("window")

        assert other.lock("door").try_acquire() is None
        lease.renew()
        lease.release()
        assert other.lock("door").try_acquire() is not None
