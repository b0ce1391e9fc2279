"""The terminal's foreground, which the command's process group has while it runs.

Only a foreground group may read the keyboard, and Ctrl-C goes to that group alone: so the
command gets it exactly once, and from the terminal itself.
"""

from __future__ import annotations

import os
import signal
import termios
from contextlib import suppress

KEYBOARD, SCREEN = 0, 1


class Terminal:
    """Lends the foreground to another group, if it is ours to lend."""

    def __init__(self) -> None:
        self._is_lent = False

    @property
    def is_lent(self) -> bool:
        """Whether the command's group has the foreground."""
        return self._is_lent

    def lend(self, group: int) -> None:
        """Put the group into the foreground, if we are there.

        Not when our output goes into a pipe: its reader (`less`) may need the keyboard
        too, and stands in our own group.
        """
        if os.isatty(KEYBOARD) and os.isatty(SCREEN) and _is_foreground():
            _set_foreground(group)
            self._is_lent = True

    def take_back(self) -> None:
        """Come back to the foreground."""
        if self._is_lent:
            self._is_lent = False
            _set_foreground(os.getpgrp())


def _is_foreground() -> bool:
    try:
        return os.tcgetpgrp(KEYBOARD) == os.getpgrp()
    except OSError:
        return False  # a terminal, but not the one that controls us


def _set_foreground(group: int) -> None:
    # From the background this would stop us (SIGTTOU), unless the signal is blocked.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
    try:
        # The terminal may have been hung up meanwhile.
        with suppress(OSError, termios.error):
            os.tcsetpgrp(KEYBOARD, group)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
