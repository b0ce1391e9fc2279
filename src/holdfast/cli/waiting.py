"""The live line of somebody who waits: place, holder, since when. On a terminal only."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast import LockError
from holdfast.cli.wording import ordinal, state_of
from holdfast.model import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast import Inspection, Locks

FIRST_LOOK = 0.3
NEXT_LOOK = 1.0
CLEAR = "\r\x1b[K"


@contextmanager
def live_line(locks: Locks, name: str, *, is_shown: bool) -> Iterator[None]:
    """Tell on stderr, once a second, whom we wait for; wiped away at the end."""
    if not is_shown:
        yield
        return
    is_over = threading.Event()
    teller = threading.Thread(target=_tell, args=(locks, name, is_over), daemon=True)
    teller.start()
    try:
        yield
    finally:
        is_over.set()
        teller.join()


def is_wanted() -> bool:
    """Whether somebody is there to read a line that changes."""
    return sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def sentence(seen: Inspection, *, host: str, pid: int) -> str:
    """Return what a waiter would like to know, from what the store says of the name."""
    ours = [one.place for one in seen.line if (one.owner.host, one.owner.pid) == (host, pid)]
    place = f"{ordinal(ours[0])} in line" if ours else "waiting"
    return f"{place} for {printable(seen.name)}; {state_of(seen)}"


def _tell(locks: Locks, name: str, is_over: threading.Event) -> None:
    host, pid, pause, was_shown = socket.gethostname(), os.getpid(), FIRST_LOOK, False
    while not is_over.wait(pause):
        pause = NEXT_LOOK
        try:
            text = sentence(locks.inspect(name), host=host, pid=pid)
        except LockError:
            # The wait itself decides how long an outage is borne; this only looks on.
            text = f"waiting for {printable(name)}; the store does not answer"
        width = shutil.get_terminal_size().columns - 1
        _write(CLEAR + text[:width])
        was_shown = True
    if was_shown:
        _write(CLEAR)


def _write(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
