"""Who asked for which name, and for how long without getting it."""

from __future__ import annotations

from collections import defaultdict
from math import inf
from typing import TYPE_CHECKING

from lockfast.challenge.checker.spans import Span

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lockfast.challenge.history import Operation
    from lockfast.challenge.recorded import Recorded

Asked = dict[str, dict[str, list[Span]]]
"""By name and by client, in their order."""


def asked(recorded: Recorded, done: Iterable[Operation]) -> Asked:
    """Return when each client asked.

    One that was refused and asks again soon has asked all the time; one that got in begins anew.
    """
    killed = {one.client for one in recorded.exits if one.was_killed}
    ended = {
        (event.client, event.number): event.at
        for event in recorded.events
        if event.act == "acquire" and event.phase != "invoked"
    }
    found: defaultdict[str, defaultdict[str, list[Span]]] = defaultdict(lambda: defaultdict(list))
    was_refused: set[tuple[str, str]] = set()
    for one in done:
        if one.act != "acquire" or one.within is not None:
            continue
        # Nobody knows when a process that was killed last asked; any other asks to this day.
        never = one.invoked if one.client in killed else inf
        span = Span(one.invoked, ended.get((one.client, one.number), never))
        mine, key = found[one.name][one.client], (one.name, one.client)
        if key in was_refused and span.start - mine[-1].end <= short_pause(recorded):
            mine[-1] = Span(mine[-1].start, span.end)
        else:
            mine.append(span)
        was_refused.discard(key)
        if not one.is_ok:
            was_refused.add(key)
    return {name: dict(by_client) for name, by_client in found.items()}


def short_pause(recorded: Recorded) -> float:
    """Return within how many seconds of the last refusal one asks again "all the time"."""
    return recorded.bound / 2
