"""What is dear to make, as a server's first data: made once, and copied for each that needs it.

A run may be one of many processes, as a run of tests is that has several workers. `MADE_IN` then
names a directory for all of them; where it does not, each process makes its own.
"""

from __future__ import annotations

import atexit
import os
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from lockfast.challenge.servers.leaving_nothing import run_directory
from lockfast.platforms import here

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MADE_IN = "LOCKFAST_CHALLENGE_MADE_IN"
"""In the environment: the directory for what all processes of a run make once."""


def share_what_is_made() -> None:
    """Let this process and all that it starts make together what is dear, unless they do."""
    if here.IS_POSIX and MADE_IN not in os.environ:  # nowhere else are servers started
        directory = run_directory("lockfast-made-")
        directory.chmod(0o755)  # servers are not root, and some read what was made for them
        os.environ[MADE_IN] = str(directory)


def made_once(name: str, make: Callable[[Path], None]) -> Path:
    """Return a directory in which `make` has done its work, here or in another process."""
    shared = os.environ.get(MADE_IN)
    if shared is None:
        directory = run_directory(f"lockfast-{name}-")
        atexit.register(shutil.rmtree, directory, ignore_errors=True)
        make(directory)
        return directory
    made = Path(shared) / name
    with _one_at_a_time(made.with_suffix(".lock")):
        if not made.exists():
            # Whoever was killed, or failed, while it made it has left what is of no use.
            begun = made.with_suffix(".begun")
            shutil.rmtree(begun, ignore_errors=True)
            begun.mkdir()
            make(begun)
            begun.rename(made)
    return made


@contextmanager
def _one_at_a_time(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        here.lock_alone(lock)
        try:
            yield
        finally:
            # Said, not only closed: a child that was forked meanwhile has the file open as well.
            here.unlock(lock)
