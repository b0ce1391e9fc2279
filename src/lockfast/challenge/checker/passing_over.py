"""Whether a lock that serves in the order of arrival served everybody, while nothing strikes."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from typing import TYPE_CHECKING

from lockfast.challenge.checker.asking import asked
from lockfast.challenge.checker.patience import too_long
from lockfast.challenge.outcome import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lockfast.challenge.history import Operation
    from lockfast.challenge.recorded import Recorded

ROUNDS = 10
"""A line lets each of the others in once; whoever times out and comes again stands at its end."""


def passed_over(recorded: Recorded, done: Sequence[Operation]) -> Iterator[Finding]:
    """Yield the clients that asked all the time while the others came in, round after round."""
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
                if others > ROUNDS * len(by_client):
                    yield Finding(
                        "stall",
                        span.start,
                        f"{name}: client {client} asked for {span.length:.1f} s from "
                        f"{span.start:.3f} on, though nothing struck, and others came in "
                        f"{others} times before it",
                        clients=(client,),
                    )
