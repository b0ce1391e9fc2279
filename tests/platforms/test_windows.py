"""The Windows code, tested on Linux with hand-written replies of the kernel."""

from __future__ import annotations

import ctypes
import importlib
import os
import socket
import struct
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

NOT_LOCKED, VIOLATION, DENIED = 158, 33, 5


class Kernel:
    """Records the calls, and returns the replies that a test chose."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []
        self.locked: set[int] = set()
        self.by_others: set[int] = set()
        self.drive = 3
        self.boot = (0, 0, 0)
        self.error = 0

    def LockFileEx(  # noqa: N802, PLR0917 - as Windows has it
        self, handle: Any, flags: int, reserved: int, low: int, high: int, place: Any
    ) -> int:
        assert (reserved, low, high) == (0, 1, 0)
        assert struct.unpack("@PPIIP", place.raw) == (0, 0, 0, 0x4000_0000, 0)
        assert flags & 1, "a call that waits cannot be interrupted"
        self.calls.append(("lock alone" if flags & 2 else "lock shared", handle.value))
        if handle.value in self.locked | self.by_others:
            # Windows does not convert one lock into another: even our own lock is in the way.
            self.error = VIOLATION
            return 0
        self.locked.add(handle.value)
        return 1

    def UnlockFileEx(  # noqa: N802 - as Windows calls it
        self, handle: Any, _reserved: int, _low: int, _high: int, _place: Any
    ) -> int:
        self.calls.append(("unlock", handle.value))
        if handle.value not in self.locked:
            self.error = NOT_LOCKED
            return 0
        self.locked.discard(handle.value)
        return 1

    def GetDriveTypeW(self, root: Any) -> int:  # noqa: N802 - as Windows calls it
        self.calls.append((root.value, 0))
        return self.drive

    def NtQuerySystemInformation(  # noqa: N802 - as Windows calls it
        self, kind: int, buffer: Any, size: int, _length: None
    ) -> int:
        assert (kind, size) == (3, 48)
        status, booted, bias = self.boot
        struct.pack_into("@qqqIIqq", buffer, 0, booted, 7, 7, 7, 7, bias, 7)
        return status


@pytest.fixture
def kernel(monkeypatch) -> Kernel:
    one = Kernel()
    monkeypatch.setattr(ctypes, "WinDLL", lambda _name, **_options: one, raising=False)
    monkeypatch.setattr(ctypes, "get_last_error", lambda: one.error, raising=False)
    monkeypatch.setattr(
        ctypes, "WinError", lambda number: OSError(number, "refused"), raising=False
    )
    return one


@pytest.fixture
def windows(kernel, monkeypatch) -> types.ModuleType:
    """The module under test, imported with a fake of a module that exists only on Windows."""
    msvcrt = types.ModuleType("msvcrt")
    msvcrt.get_osfhandle = lambda number: number + 1000
    monkeypatch.setitem(sys.modules, "msvcrt", msvcrt)
    module = importlib.import_module("lockfast.platforms.windows")
    monkeypatch.setattr(module, "msvcrt", msvcrt)
    return module


# -- locks on files --------------------------------------------------------------------


def test_a_lock_is_asked_for_the_handle_and_not_for_the_number(windows, kernel):
    assert windows.try_lock_exclusive(7)
    assert kernel.locked == {1007}


def test_a_lock_of_ours_becomes_another_one(windows, kernel):
    """Windows would keep both locks, and our own exclusive lock would block our shared one."""
    assert windows.try_lock_exclusive(7)

    windows.lock_shared(7)

    assert [what for what, _ in kernel.calls] == ["unlock", "lock alone", "unlock", "lock shared"]
    assert kernel.locked == {1007}


def test_a_lock_that_another_has_is_no_error(windows, kernel):
    kernel.by_others.add(1007)

    assert not windows.try_lock_exclusive(7)
    assert not windows.try_lock_shared(7)


def test_a_lock_that_cannot_be_had_is_one(windows, kernel, monkeypatch):
    def deny(*_arguments: object) -> int:
        kernel.error = DENIED
        return 0

    monkeypatch.setattr(kernel, "LockFileEx", deny)

    with pytest.raises(OSError, match="refused") as refused:
        windows.try_lock_exclusive(7)

    assert refused.value.errno == DENIED


def test_a_lock_is_waited_for_until_the_other_lets_go(windows, kernel, monkeypatch):
    kernel.by_others.add(1007)
    monkeypatch.setattr(time, "sleep", lambda _seconds: kernel.by_others.clear())

    windows.lock_exclusive(7)

    assert kernel.locked == {1007}


# -- waiting on sockets ----------------------------------------------------------------


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def test_a_poll_tells_who_can_be_read_and_who_written(windows, pair):
    ours, theirs = pair
    poll = windows.Poll()
    poll.register(ours, windows.READ)
    before = poll.poll(0)
    theirs.send(b"!")
    readable = poll.poll(60_000)
    poll.modify(ours, windows.READ | windows.WRITE)
    both = poll.poll(60_000)
    poll.unregister(ours.fileno())

    assert before == []
    assert readable == [(ours.fileno(), windows.READ)]
    assert both == [(ours.fileno(), windows.READ | windows.WRITE)]
    assert poll.poll(0) == []


def test_a_poll_sees_the_end_of_a_connection(windows, pair):
    ours, theirs = pair
    poll = windows.Poll()
    poll.register(ours, windows.READ)

    theirs.close()

    assert poll.poll(60_000) == [(ours.fileno(), windows.READ)]


def test_a_poll_refuses_what_is_closed(windows, pair):
    """A closed socket is refused, as in select.poll; the caller treats the error as the end."""
    ours, _ = pair
    ours.close()

    with pytest.raises(ValueError, match="negative"):
        windows.Poll().register(ours, windows.READ)


def test_a_connection_that_failed_is_told_to_who_waits_to_write(windows, monkeypatch):
    """Windows reports a failed connection only in the third list of select."""
    poll = windows.Poll()
    poll.register(7, windows.WRITE)

    def select(reading: list[int], writing: list[int], failing: list[int], seconds: float) -> Any:
        assert (reading, writing, failing, seconds) == ([], [7], [7], 2.0)
        return [], [], [7]

    monkeypatch.setattr("select.select", select)

    assert poll.poll(2000) == [(7, windows.WRITE)]


# -- what the machine says of itself ---------------------------------------------------


def test_a_boot_stays_the_same_when_somebody_sets_the_clock(windows, kernel):
    kernel.boot = (0, 133_000_000_000_000_000, 0)
    before = windows.boot_id()
    kernel.boot = (0, 133_000_000_000_000_000 + 36_000_000_000, 36_000_000_000)

    assert windows.boot_id() == before
    kernel.boot = (0, 133_000_000_000_000_001, 0)
    assert windows.boot_id() != before


@pytest.mark.parametrize("boot", [(-1073741820, 133_000_000_000_000_000, 0), (0, 0, 0)])
def test_a_boot_that_is_not_told_is_an_error(windows, kernel, boot):
    kernel.boot = boot

    with pytest.raises(OSError, match="does not tell when it was started"):
        windows.boot_id()


@pytest.mark.parametrize(
    ("drive", "told", "is_reached"),
    [(3, "fixed drive", False), (4, "network drive", True), (2, "removable drive", False)],
)
def test_a_network_drive_reaches_other_machines(windows, kernel, drive, told, is_reached):
    kernel.drive = drive

    found = windows.file_system(Path.cwd())

    assert found == told
    assert windows.is_shared_file_system(found) is is_reached
    assert kernel.calls == [(Path.cwd().anchor, 0)]


def test_nothing_is_told_of_a_drive_that_is_not_there(windows, kernel, tmp_path):
    kernel.drive = 1

    assert windows.file_system(tmp_path) == ""


def test_the_clock_is_the_same_for_every_python(windows):
    """Before 3.13, `time.monotonic()` is another clock, with a resolution of 16 ms."""
    assert windows.now is time.perf_counter


@pytest.mark.parametrize(
    ("local", "directory"),
    [(r"C:\Users\me\AppData\Local", r"C:\Users\me\AppData\Local"), ("", "home/AppData/Local")],
)
def test_the_state_of_a_user_is_kept_with_the_machine(
    windows, monkeypatch, tmp_path, local, directory
):
    """The state must not be in the part of the profile that roams with the user."""
    monkeypatch.setenv("LOCALAPPDATA", local)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))

    assert os.fspath(windows.state_directory()).endswith(directory)


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("/C:/locks.db", "C:/locks.db"),
        ("//C:/locks.db", "C:/locks.db"),
        ("locks.db", "locks.db"),
        ("/locks.db", "/locks.db"),
    ],
)
def test_the_slash_before_a_drive_is_the_urls(windows, path, named):
    assert windows.path_of_url(path) == named


def test_there_is_no_fork_to_be_told_of(windows):
    def never() -> None:
        raise AssertionError

    ask: Callable[..., None] = windows.at_fork
    ask(before=never, after_in_parent=never, after_in_child=never)
