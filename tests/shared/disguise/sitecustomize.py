"""Makes this Python look like one on macOS or Windows, as far as Lockfast can see.

Python runs this file at its start if its folder is on the path, so processes started by a test are
disguised too. It replaces the system below `lockfast.platforms`, never Lockfast itself:
`lockfast.platforms` finds another module, and that module finds a fake kernel. The fake behaves as
the real kernel is documented to, but uses only what Linux has.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import fcntl
import importlib
import os
import struct
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

VARIABLE = "LOCKFAST_TEST_PLATFORM"
PLATFORMS = ("macos", "windows")
ROOM = Path(__file__).parents[3] / "src" / "lockfast" / "platforms"

BOOTED = Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def put_on(platform: str) -> None:
    """Imitate that platform from now on; call before anything of Lockfast is imported."""
    if platform not in PLATFORMS:
        raise ValueError(f"{VARIABLE}={platform}: it is one of {', '.join(PLATFORMS)}")
    if "lockfast.platforms" in sys.modules:
        raise RuntimeError("Lockfast knows its platform already")
    {"macos": as_macos, "windows": as_windows}[platform]()
    # The package without its `__init__`, which detects the platform.
    room = types.ModuleType("lockfast.platforms")
    room.__path__ = [str(ROOM)]
    room.__getattr__ = lambda name: _chosen(name, platform)
    sys.modules["lockfast.platforms"] = room


def _chosen(name: str, platform: str) -> types.ModuleType:
    if name != "here":
        raise AttributeError(name)
    return importlib.import_module(f"lockfast.platforms.{platform}")


# -- macOS -----------------------------------------------------------------------------


class MacLibrary:
    """The functions that macOS's C library has and Linux's lacks."""

    def __init__(self) -> None:
        self._real = _load(None, use_errno=True)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def sysctlbyname(self, name: bytes, buffer: Any, size: Any, _new: None, _length: int) -> int:
        if name != b"kern.bootsessionuuid":
            ctypes.set_errno(errno.ENOENT)
            return -1
        text = BOOTED.upper().encode()
        assert len(buffer) > len(text)
        buffer.value = text
        size._obj.value = len(text) + 1
        return 0

    def statfs(self, path: bytes, buffer: Any) -> int:
        if not os.path.exists(path):  # noqa: PTH110 - bytes, as C has them
            ctypes.set_errno(errno.ENOENT)
            return -1
        ctypes.memset(buffer, 0xFF, len(buffer))
        local = 0x1000
        struct.pack_into("@64xI4x16s", buffer, 0, local | 0x4000, b"apfs")
        return 0


_load: Callable[..., Any] = ctypes.CDLL


def as_macos() -> None:
    ctypes.CDLL = lambda name, *rest, **options: (
        MacLibrary() if name is None else _load(name, *rest, **options)
    )


# -- Windows ---------------------------------------------------------------------------

NOT_LOCKED, VIOLATION = 158, 33
FAIL_IMMEDIATELY, EXCLUSIVE = 1, 2

_last_error = 0


class Kernel32:
    """Windows locks, implemented with those of Linux, which end with the file in the same way."""

    def LockFileEx(  # noqa: N802 - as Windows calls it
        self, handle: Any, flags: int, _reserved: int, low: int, high: int, place: Any
    ) -> int:
        assert (low, high, len(place)) == (1, 0, 32)
        if not flags & FAIL_IMMEDIATELY:
            raise AssertionError("a call that waits cannot be interrupted on Windows")
        kind = fcntl.LOCK_EX if flags & EXCLUSIVE else fcntl.LOCK_SH
        try:
            fcntl.flock(handle.value, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return _fail(VIOLATION)
        return 1

    def UnlockFileEx(  # noqa: N802 - as Windows calls it
        self, handle: Any, _reserved: int, low: int, high: int, place: Any
    ) -> int:
        assert (low, high, len(place)) == (1, 0, 32)
        fcntl.flock(handle.value, fcntl.LOCK_UN)
        return _fail(NOT_LOCKED)  # Windows may report this error, which must not matter

    def GetDriveTypeW(self, root: Any) -> int:  # noqa: N802 - as Windows calls it
        assert root.value == "/"
        return 3


class Ntdll:
    """Reports when the machine was started."""

    def NtQuerySystemInformation(  # noqa: N802 - as Windows calls it
        self, kind: int, buffer: Any, size: int, _length: None
    ) -> int:
        assert (kind, size, len(buffer)) == (3, 48, 48)
        booted = int(BOOTED[:8], 16)
        hour = 36_000_000_000  # the clock has been set
        struct.pack_into("@qqqIIqq", buffer, 0, booted + hour, 1, 2, 3, 4, hour, 5)
        return 0


def _fail(number: int) -> int:
    global _last_error  # noqa: PLW0603 - like the error number of Windows
    _last_error = number
    return 0


def as_windows() -> None:
    libraries = {"kernel32": Kernel32, "ntdll": Ntdll}
    ctypes.WinDLL = lambda name, **_options: libraries[name]()
    ctypes.get_last_error = lambda: _last_error
    ctypes.WinError = lambda number: OSError(number, f"error {number} of Windows")
    msvcrt = types.ModuleType("msvcrt")
    msvcrt.get_osfhandle = lambda number: number
    sys.modules["msvcrt"] = msvcrt
    asyncio.selector_events.BaseSelectorEventLoop.add_reader = _watches_nothing
    os.unlink = _unless_open(os.unlink)


def _watches_nothing(_loop: object, *_rest: object) -> None:
    raise NotImplementedError  # like the ProactorEventLoop, the default on Windows


def _unless_open(unlink: Callable[..., None]) -> Callable[..., None]:
    """Refuse to remove a side file of SQLite that this process has open."""

    def refuse_or_unlink(path: Any, **options: Any) -> None:
        name = os.fsdecode(path)
        if name.endswith(".client") and os.path.realpath(name) in set(_open_files()):
            raise PermissionError(errno.EACCES, "used by another process", name)
        unlink(path, **options)

    return refuse_or_unlink


def _open_files() -> list[str]:
    found = []
    for number in os.listdir("/proc/self/fd"):  # noqa: PTH208 - called often, so it must be cheap
        try:
            found.append(os.readlink(f"/proc/self/fd/{number}"))  # noqa: PTH115 - as above
        except FileNotFoundError:
            continue  # the descriptor of the listing itself
    return found


if os.environ.get(VARIABLE):
    put_on(os.environ[VARIABLE])
