"""Whether somebody got in whenever somebody asked, judged only while nothing strikes.

Under one fault after the other any lock may stand still for longer than any bound: each holder or
admitted waiter that is frozen or killed costs a ttl. In a quiet stretch a name may be closed only
for as long as what a dead holder left may last, and for the time that it takes to see that.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from lockfast.challenge.checker.asking import asked, short_pause
from lockfast.challenge.checker.holds import definite_holds
from lockfast.challenge.checker.patience import too_long
from lockfast.challenge.checker.spans import Span, gaps, joined
from lockfast.challenge.outcome import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lockfast.challenge.history import Operation
    from lockfast.challenge.recorded import Recorded


def stalls(recorded: Recorded, done: Sequence[Operation]) -> Iterator[Finding]:
    """Yield the stretches in which a name was neither held nor given, though somebody asked."""
    busy = _busy(done)
    for name, by_client in asked(recorded, done).items():
        everybody = [span for spans in by_client.values() for span in spans]
        together = joined(everybody, pause=short_pause(recorded))
        # Few gaps are long, so they come first.
        free = [gap for gap in gaps(busy[name]) if gap.length > recorded.bound]
        closed = (span.within(gap) for gap in free for span in together)
        for idle, patience in too_long(recorded, closed):
            clients = sorted(
                client
                for client, spans in by_client.items()
                if any(span.within(idle).length > 0 for span in spans)
            )
            yield Finding(
                "stall",
                idle.start,
                f"{name}: nobody was inside and nobody came in for {idle.length:.1f} s from "
                f"{idle.start:.3f} on, though nothing struck and {', '.join(clients)} asked; "
                f"no more than {patience:.1f} s may pass",
                clients=tuple(clients),
            )


def _busy(done: Sequence[Operation]) -> defaultdict[str, list[Span]]:
    """Return, by name, when somebody was inside for certain, and when somebody came in."""
    found: defaultdict[str, list[Span]] = defaultdict(list)
    for hold in definite_holds(done):
        found[hold.name].append(Span(hold.granted, hold.released or hold.until))
    for one in done:
        if one.act == "acquire" and one.is_ok and one.answered is not None:
            found[one.name].append(Span(one.answered, one.answered))
    return found
