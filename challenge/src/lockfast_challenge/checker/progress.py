"""Checks progress: while clients request a name, one gets in, and no client is passed over."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from math import inf
from typing import TYPE_CHECKING

from lockfast_challenge.checker.holds import TimeSpan, definite_holds, gaps, joined
from lockfast_challenge.outcome import RunFinding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lockfast_challenge.history import HistoryOperation
    from lockfast_challenge.outcome import Recorded


# Which client requested which name, and for how long without getting it.

RequestSpans = dict[str, dict[str, list[TimeSpan]]]
"""The spans by name and by client, in order of time."""


def asked(recorded: Recorded, done: Iterable[HistoryOperation]) -> RequestSpans:
    """Return the spans in which each client requested each name.

    A client that is refused and soon requests the name again counts as requesting it all the time.
    When a client gets in, its span ends.
    """
    killed = {one.client for one in recorded.exits if one.was_killed}
    ended = {
        (event.client, event.number): event.at
        for event in recorded.events
        if event.act == "acquire" and event.phase != "invoked"
    }
    found: defaultdict[str, defaultdict[str, list[TimeSpan]]] = defaultdict(
        lambda: defaultdict(list)
    )
    was_refused: set[tuple[str, str]] = set()
    for one in done:
        if one.act != "acquire" or one.within is not None:
            continue
        # It is unknown how long a killed process without a reply kept requesting. Any other process
        # without a reply counts as still requesting.
        never = one.invoked if one.client in killed else inf
        span = TimeSpan(one.invoked, ended.get((one.client, one.number), never))
        mine, key = found[one.name][one.client], (one.name, one.client)
        if key in was_refused and span.start - mine[-1].end <= short_pause(recorded):
            mine[-1] = TimeSpan(mine[-1].start, span.end)
        else:
            mine.append(span)
        was_refused.discard(key)
        if not one.is_ok:
            was_refused.add(key)
    return {name: dict(by_client) for name, by_client in found.items()}


def short_pause(recorded: Recorded) -> float:
    """Return the longest pause after a refusal, in seconds, that does not end a client's span."""
    return recorded.bound / 2


# How long a name may stay closed in a quiet stretch, on a machine that may be slow.
#
# A delay of the machine counts only where it happened, because one hiccup must not excuse a stall
# at another time.

LATENESS_FACTOR = 10.0
"""Extra seconds allowed for each second by which the run itself was late in that span.

The clients are as short of CPU time as the run, and each handover involves several clients.
"""


def too_long(recorded: Recorded, spans: Iterable[TimeSpan]) -> Iterator[tuple[TimeSpan, float]]:
    """Yield, with the time allowed, the parts of the spans that are too long in a quiet stretch."""
    least = recorded.ttl + recorded.bound
    quiets = [TimeSpan(start, end) for start, end in recorded.quiets]
    for one in spans:
        if one.length > least:
            for quiet in quiets:
                part = one.within(quiet)
                if part.length > least and part.length > (most := _patience(recorded, part)):
                    yield part, most


def _patience(recorded: Recorded, span: TimeSpan) -> float:
    """Return the allowed time: a dead holder's lease, the time to notice, and the machine's delay.

    Delays shortly before the span count too, because they may have made a client begin later.
    """
    least = recorded.ttl + recorded.bound
    late = [by for at, by in recorded.hiccups if span.start - least <= at <= span.end]
    return least + LATENESS_FACTOR * max(late, default=0.0)


# Clients that a lock passed over although it serves in order of arrival and no fault struck.

PASSED_OVER_ROUNDS = 10
"""Number of rounds without a grant after which a client counts as passed over.

A line admits each other client once per round; a waiter that times out and returns joins the line
at its end.
"""


def passed_over(recorded: Recorded, done: Sequence[HistoryOperation]) -> Iterator[RunFinding]:
    """Yield a finding for each client that kept requesting while others got in for many rounds."""
    if not recorded.is_fair:
        return
    granted: defaultdict[str, list[float]] = defaultdict(list)
    for one in done:
        if one.act == "acquire" and one.is_ok and one.answered is not None:
            granted[one.name].append(one.answered)
    for name, by_client in asked(recorded, done).items():
        times = sorted(granted[name])
        for client, spans in by_client.items():
            for span, _ in too_long(recorded, spans):
                others = bisect_left(times, span.end) - bisect_right(times, span.start)
                if others > PASSED_OVER_ROUNDS * len(by_client):
                    yield RunFinding(
                        "stall",
                        span.start,
                        f"{name}: client {client} asked for {span.length:.1f} s from "
                        f"{span.start:.3f} on, though nothing struck, and others came in "
                        f"{others} times before it",
                        clients=(client,),
                    )


# Stalls: stretches in which clients requested a name and none got in, though no fault struck.
#
# Under a series of faults any lock may stall for longer than any bound, because each holder or
# admitted waiter that is frozen or killed costs a ttl. In a quiet stretch a name may stay closed
# only for the rest of a dead holder's lease, and for the time that clients take to notice its end.


def stalls(recorded: Recorded, done: Sequence[HistoryOperation]) -> Iterator[RunFinding]:
    """Yield the stretches in which a requested name was neither held nor granted."""
    busy = _busy(done)
    for name, by_client in asked(recorded, done).items():
        everybody = [span for spans in by_client.values() for span in spans]
        together = joined(everybody, pause=short_pause(recorded))
        # Filter the gaps by length first, because few of them are long.
        free = [gap for gap in gaps(busy[name]) if gap.length > recorded.bound]
        closed = (span.within(gap) for gap in free for span in together)
        for idle, patience in too_long(recorded, closed):
            clients = sorted(
                client
                for client, spans in by_client.items()
                if any(span.within(idle).length > 0 for span in spans)
            )
            yield RunFinding(
                "stall",
                idle.start,
                f"{name}: nobody was inside and nobody came in for {idle.length:.1f} s from "
                f"{idle.start:.3f} on, though nothing struck and {', '.join(clients)} asked; "
                f"no more than {patience:.1f} s may pass",
                clients=tuple(clients),
            )


def _busy(done: Sequence[HistoryOperation]) -> defaultdict[str, list[TimeSpan]]:
    """Return, by name, when a client was certainly inside, and when a client got in."""
    found: defaultdict[str, list[TimeSpan]] = defaultdict(list)
    for hold in definite_holds(done):
        found[hold.name].append(TimeSpan(hold.granted, hold.released or hold.until))
    for one in done:
        if one.act == "acquire" and one.is_ok and one.answered is not None:
            found[one.name].append(TimeSpan(one.answered, one.answered))
    return found
