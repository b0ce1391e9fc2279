"""Makes expensive things, such as a server's initial data, only once; users copy them.

A run may consist of many processes, such as a test run with several workers. `MADE_IN` then names a
directory that they share; if it is not set, each process makes these things for itself.
"""

from __future__ import annotations

import atexit
import os
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from lockfast.platforms import here
from lockfast_challenge.servers.run_directory import run_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MADE_IN = "LOCKFAST_CHALLENGE_MADE_IN"
"""Environment variable that names the directory for the things that a run makes only once."""


def share_what_is_made() -> None:
    """Let this process and its children share expensive things, unless they already do."""
    if here.IS_POSIX and MADE_IN not in os.environ:  # servers are not started on other systems
        directory = run_directory("lockfast-made-")
        directory.chmod(0o755)  # servers that do not run as root read from it
        os.environ[MADE_IN] = str(directory)


def made_once(name: str, make: Callable[[Path], None]) -> Path:
    """Return a directory that `make` has filled, in this process or in another one."""
    shared = os.environ.get(MADE_IN)
    if shared is None:
        directory = run_directory(f"lockfast-{name}-")
        atexit.register(shutil.rmtree, directory, ignore_errors=True)
        make(directory)
        return directory
    made = Path(shared) / name
    with _one_at_a_time(made.with_suffix(".lock")):
        if not made.exists():
            # A process that was killed or failed in this place has left an unusable directory.
            begun = made.with_suffix(".begun")
            shutil.rmtree(begun, ignore_errors=True)
            begun.mkdir()
            make(begun)
            begun.rename(made)
    return made


@contextmanager
def _one_at_a_time(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        here.lock_exclusive(lock)
        try:
            yield
        finally:
            # Unlock explicitly and not only by closing, because a child forked in the
            # meantime has the file open as well.
            here.unlock(lock)
