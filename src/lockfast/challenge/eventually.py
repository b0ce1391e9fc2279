"""Waiting for what must happen, and not for luck."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE = 60.0
"""What has not happened on this machine by then will not."""

SOON, LATER = 0.005, 0.05
"""So long after a look comes the next: what is looked at is often a server, which may be busy with
what it is waited for."""


class NeverHappened(AssertionError):
    """What must happen has not, in all that time: a test that waited for it has failed."""


def eventually(
    has_happened: Callable[[], object],
    *,
    within: float = PATIENCE,
    what: str = "it has happened",
    despite: tuple[type[Exception], ...] = (),
) -> None:
    """Wait until something has happened; fail if it never does.

    `what` is waited for, said for whoever reads of the failure. `despite` are the errors that
    mean "not yet", as those of a server that is starting.
    """
    deadline, pause = time.monotonic() + within, SOON
    while True:
        said = ""
        try:
            if has_happened():
                return
        except despite as error:
            said = f" ({error})"
        if time.monotonic() >= deadline:
            raise NeverHappened(f"not in {within} s: {what}{said}")
        time.sleep(pause)
        pause = min(pause * 1.1, LATER)
