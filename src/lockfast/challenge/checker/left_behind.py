"""Whether everything is as it was before: names free, descriptors and threads given back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockfast.challenge.outcome import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lockfast.challenge.recorded import Exit, Recorded

OPEN = 24
"""What a client may have open at most, however long it is used: connections to a dozen nodes."""


def left_behind(recorded: Recorded) -> list[Finding]:
    """Return what is still held though everybody is gone, and what processes did not give back."""
    at = max(
        [
            *(event.at for event in recorded.events),
            *(one.at for one in recorded.exits),
            *(strike.ended for strike in recorded.strikes),
        ],
        default=0.0,
    )
    return [
        *(Finding("left behind", at, f"still held at the end: {name}") for name in recorded.left),
        *(finding for one in recorded.exits for finding in _of_process(one)),
    ]


def _of_process(one: Exit) -> Iterator[Finding]:
    in_use = one.in_use or (0, 0)
    kinds = (("descriptors", one.descriptors, in_use[0]), ("threads", one.threads, in_use[1]))
    for what, counted, used in kinds:
        if counted is None:
            continue
        before, after = counted
        if used > before + OPEN:
            yield _finding(one, f"{before} {what}, and {used} after its last operation")
        if after > before:
            yield _finding(one, f"{before} {what}, and {after} after it was closed")


def _finding(one: Exit, figures: str) -> Finding:
    message = f"before its client was opened, {one.client} had {figures}"
    return Finding("left behind", one.at, message, clients=(one.client,))
