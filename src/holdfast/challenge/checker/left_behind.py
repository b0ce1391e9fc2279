"""Whether everything is as it was before: names free, descriptors and threads given back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.challenge.outcome import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.challenge.recorded import Exit, Recorded


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
    for what, counted in (("descriptors", one.descriptors), ("threads", one.threads)):
        if counted is None:
            continue
        before, after = counted
        if after > before:
            yield Finding(
                "left behind",
                one.at,
                f"client {one.client} had {before} {what} before its first operation and "
                f"{after} after its last",
                clients=(one.client,),
            )
