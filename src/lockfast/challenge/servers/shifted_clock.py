"""Servers whose clock a test can set.

Each store's own module has its class, so that a store needs no driver but its own.
"""

from __future__ import annotations

import atexit
import os
import shutil
import struct
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

from lockfast.challenge.servers.leaving_nothing import run_directory
from lockfast.challenge.servers.starting import CannotStart, Server, missing

SOURCE = Path(__file__).with_suffix(".c")


class ShiftedClock(Server):
    """Its clock is ours plus a shift."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._shift = self.directory / "shift"
        self.shift_clock(0.0)
        self.environment: dict[str, str] = {
            **os.environ,
            "LD_PRELOAD": str(library()),
            "CLOCK_SHIFT": str(self._shift),
        }

    def shift_clock(self, seconds: float) -> None:
        """Let the server's clock jump to ours plus so many seconds."""
        with self._shift.open("r+b" if self._shift.exists() else "wb") as file:
            file.write(struct.pack("=q", round(seconds * 1_000_000)))


def clock_lacks() -> str:
    """Return what this machine needs to set a server's clock, as a sentence; empty if nothing."""
    return missing({"gcc": "gcc", "/usr/include/time.h": "libc6-dev"})


@cache
def library() -> Path:
    """Return the compiled shim, made once in a run."""
    directory = run_directory("lockfast-clock-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    directory.chmod(0o755)  # read by servers that are not root
    target = directory / "clock_shift.so"
    if lacks := clock_lacks():
        raise CannotStart(lacks)
    command = ["gcc", "-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o", str(target), str(SOURCE)]
    subprocess.run([*command, "-ldl"], check=True)
    return target
