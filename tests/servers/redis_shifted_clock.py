"""A Redis server whose clock a test can set."""

from __future__ import annotations

import atexit
import os
import shutil
import struct
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from servers.redis import RedisServer

SOURCE = Path(__file__).with_name("redis_shifted_clock.c")


class ShiftedServer(RedisServer):
    """Its clock is ours plus a shift."""

    def __init__(self, *options: str) -> None:
        super().__init__(*options)
        self._shift = self.directory / "shift"
        self.shift_clock(0.0)
        self.environment = {
            **os.environ,
            "LD_PRELOAD": str(library()),
            "CLOCK_SHIFT": str(self._shift),
        }

    def shift_clock(self, seconds: float) -> None:
        """Let the server's clock jump to ours plus so many seconds."""
        with self._shift.open("r+b" if self._shift.exists() else "wb") as file:
            file.write(struct.pack("=q", round(seconds * 1_000_000)))


@cache
def library() -> Path:
    """Return the compiled shim, made once in a run."""
    directory = Path(tempfile.mkdtemp(prefix="holdfast-clock-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    target = directory / "clock_shift.so"
    command = ["gcc", "-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o", str(target), str(SOURCE)]
    subprocess.run(command, check=True)
    return target
