"""How a thread is begun: that there is none to be had is never mistaken for an interrupt."""

from __future__ import annotations

import sys
import threading

from lockfast.errors import ConfigurationError


def refuse_without_daemons() -> None:
    """Raise where no thread may run beside the program, as in a subinterpreter.

    Call it before the store is asked for anything. What needs a thread when a lock was granted
    would fail then, with the lock held.
    """
    try:
        threading.Thread(daemon=True)
    except RuntimeError as error:
        raise ConfigurationError(
            f"this interpreter cannot start background threads ({error}), and leases are renewed "
            "by one; subinterpreters forbid it, so use the locks in the main interpreter"
        ) from error


def start(thread: threading.Thread) -> None:
    """Begin the thread; RuntimeError if none is to be had.

    What an interrupt raises gets through. The thread may be there then.
    """
    outside = sys.exc_info()[1]
    struck: BaseException | None = None
    try:
        thread.start()
    except RuntimeError as error:
        # Where an interrupt strikes, `threading` may stumble over a lock of its own and raise this
        # instead. Whoever asked would go on without a thread, and nobody would hear of it.
        struck = error.__context__
        if struck is None or struck is outside:
            raise
    try:
        if struck is not None:
            raise struck
    finally:
        del struck  # it knows this frame: together they would keep alive what others own
