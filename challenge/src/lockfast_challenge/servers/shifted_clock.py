"""Servers whose clock a test can set.

The class for each store is in that store's own module, so that a store needs only its own driver.
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

from lockfast_challenge.servers.run_directory import run_directory
from lockfast_challenge.servers.server import CannotStart, Server, missing

SOURCE = Path(__file__).with_suffix(".c")


class ShiftedClock(Server):
    """A server whose clock is ours plus a shift."""

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
        """Set the server's clock to ours plus this many seconds."""
        with self._shift.open("r+b" if self._shift.exists() else "wb") as file:
            file.write(struct.pack("=q", round(seconds * 1_000_000)))


def clock_lacks() -> str:
    """Return what this machine lacks to set a server's clock, as a sentence; empty if nothing."""
    return missing({"gcc": "gcc", "/usr/include/time.h": "libc6-dev"})


@cache
def library() -> Path:
    """Return the compiled shim, built once in a run."""
    directory = run_directory("lockfast-clock-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    directory.chmod(0o755)  # servers that do not run as root read from it
    target = directory / "clock_shift.so"
    if lacks := clock_lacks():
        raise CannotStart(lacks)
    command = ["gcc", "-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o", str(target), str(SOURCE)]
    subprocess.run([*command, "-ldl"], check=True)
    return target
