"""Whether a process of a client ended in a way that nobody caused."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from holdfast.challenge.outcome import Finding

if TYPE_CHECKING:
    from holdfast.challenge.recorded import Recorded


def crashes(recorded: Recorded) -> list[Finding]:
    """Return the processes that the run did not end and that did not end well by themselves."""
    return [
        Finding(
            "crash",
            one.at,
            f"client {one.client} ended with {_told(one.returncode)}, which nobody caused",
            clients=(one.client,),
        )
        for one in recorded.exits
        if one.returncode and not one.was_killed
    ]


def _told(returncode: int) -> str:
    if returncode > 0:
        return f"exit status {returncode}"
    try:
        return signal.Signals(-returncode).name
    except ValueError:
        return f"signal {-returncode}"
