"""The macOS code, tested on Linux with hand-written replies of the kernel."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import time
from pathlib import Path
from typing import Any

import pytest

from lockfast.platforms import macos


class Library:
    """The C library of a Mac with these volumes, by mount point."""

    def __init__(self, volumes: dict[str, tuple[bytes, int]], boot: bytes | None = b"") -> None:
        self._volumes = volumes
        self._boot = boot
        self.asked: list[str] = []

    def sysctlbyname(self, name: bytes, buffer: Any, _size: Any, new: None, length: int) -> int:
        assert (name, new, length) == (b"kern.bootsessionuuid", None, 0)
        if self._boot is None:
            ctypes.set_errno(errno.EPERM)
            return -1
        buffer.value = self._boot
        return 0

    def statfs(self, path: bytes, buffer: Any) -> int:
        self.asked.append(os.fsdecode(path))
        if os.fsdecode(path) not in self._volumes:
            return -1
        kind, flags = self._volumes[os.fsdecode(path)]
        struct.pack_into("@I60xI4x16s", buffer, 0, 4096, flags, kind)
        return 0


@pytest.fixture
def install(monkeypatch):
    def as_library(library: Library) -> Library:
        monkeypatch.setattr(ctypes, "CDLL", lambda _name, **_options: library)
        return library

    return as_library


def test_a_boot_is_known_by_its_session(install):
    """A boot is identified by its session, because its time changes when the clock is set."""
    install(Library({}, boot=b"0E6F0D5C-6C33-4A6B-9C3B-1B0F0C7A5B11"))

    assert macos.boot_id() == "0E6F0D5C-6C33-4A6B-9C3B-1B0F0C7A5B11"


def test_a_boot_that_is_not_told_is_an_error_with_a_reason(install):
    install(Library({}, boot=None))

    with pytest.raises(PermissionError, match=r"kern\.bootsessionuuid"):
        macos.boot_id()


@pytest.mark.parametrize(
    ("volume", "told", "is_reached"),
    [
        ((b"apfs", 0x1000 | 0x800000), "apfs", False),
        ((b"smbfs", 0x8), "network smbfs", True),
        ((b"nfs", 0), "network nfs", True),
        ((b"macfuse", 0x1000), "macfuse", True),
        ((b"sixteen-letters!", 0x1000), "sixteen-letters!", False),
    ],
)
def test_a_volume_that_is_not_local_reaches_other_machines(
    install, tmp_path, volume, told, is_reached
):
    install(Library({str(tmp_path): volume}))

    found = macos.file_system(tmp_path)

    assert found == told
    assert macos.is_shared_file_system(found) is is_reached


def test_a_folder_that_is_yet_to_be_made_is_on_the_volume_of_the_one_that_it_will_be_in(
    install, tmp_path
):
    library = install(Library({str(tmp_path): (b"apfs", 0x1000)}))

    assert macos.file_system(tmp_path / "state" / "lockfast") == "apfs"
    assert len(library.asked) == 3


def test_intel_is_asked_by_the_name_of_64_bit_inodes(install):
    """On Intel, the plain name is a function with a different structure."""
    library = install(Library({}))
    setattr(library, "statfs$INODE64", Library({"/": (b"apfs", 0x1000)}).statfs)

    assert macos.file_system(Path("/")) == "apfs"
    assert library.asked == []


def test_nothing_is_told_of_a_volume_that_cannot_be_asked(install):
    install(Library({}))

    assert macos.file_system(Path("/nowhere")) == ""
    assert not macos.is_shared_file_system("")


def test_the_clock_is_the_one_that_counts_sleep_there():
    """The clock must not be `time.monotonic()`, which stops during sleep on macOS."""
    assert macos.now.func is time.clock_gettime
    assert macos.now.args == (time.CLOCK_MONOTONIC_RAW,)
