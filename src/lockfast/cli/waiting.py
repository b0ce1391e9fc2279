"""What somebody who waits is told: place, holder, since when; live, or in a log."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import threading
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING

from lockfast import LockError
from lockfast.cli.store import tell
from lockfast.cli.wording import ordinal, state_of, state_since
from lockfast.model import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lockfast import Inspection, Locks

FIRST_LOOK = 0.3
NEXT_LOOK = 1.0
CLEAR = "\r\x1b[K"

FIRST_WORD = 2.0
"""Where nobody watches, a short wait is not worth a line in a log."""
NEXT_WORD = 600.0


@contextmanager
def told_of_waiting(locks: Locks, name: str, *, is_quiet: bool) -> Iterator[None]:
    """Tell on stderr whom we wait for.

    On a terminal by a live line, once a second, wiped away at the end; elsewhere by a line of
    its own, repeated rarely: it ends up in a log, or in a mail of cron's.
    """
    if is_quiet:
        yield
        return
    is_over = threading.Event()
    tell_it = _tell_live if is_wanted() else _tell_rarely
    teller = threading.Thread(target=tell_it, args=(locks, name, is_over), daemon=True)
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


def _tell_live(locks: Locks, name: str, is_over: threading.Event) -> None:
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


def _tell_rarely(locks: Locks, name: str, is_over: threading.Event) -> None:
    pause = FIRST_WORD
    while not is_over.wait(pause):
        pause = NEXT_WORD
        try:
            state = state_since(locks.inspect(name), now=datetime.now().astimezone())
        except LockError:
            state = "and the store does not answer"  # as above
        if not is_over.is_set():  # it may be ours meanwhile
            tell(f"waiting for {name}, {state}")


def _write(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
