"""Whether a process of a client ended in a way that nobody caused."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from lockfast.challenge.outcome import Finding

if TYPE_CHECKING:
    from lockfast.challenge.recorded import Exit, Recorded


def crashes(recorded: Recorded) -> list[Finding]:
    """Return the processes that the run did not end and that did not end well by themselves."""
    return [
        Finding(
            "crash",
            one.at,
            f"client {one.client} {_told(one)}",
            clients=(one.client,),
        )
        for one in recorded.exits
        if not one.was_killed and (one.returncode or not one.was_asked)
    ]


def _told(one: Exit) -> str:
    if one.hung_for:
        return f"did not end in {one.hung_for:.0f} s after it was told to, and was killed"
    return f"ended with {_named(one.returncode)}, which nobody caused"


def _named(returncode: int) -> str:
    if returncode >= 0:
        return f"exit status {returncode}"
    try:
        return signal.Signals(-returncode).name
    except ValueError:
        return f"signal {-returncode}"
