"""Whether a holder was told in time: no lease says that it may be acted upon after its deadline.

The deadline is the lock's own word. A check that was asked for later and still said yes would let
a holder that was frozen, or whose renewals failed, act beside the next one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockfast.challenge.outcome import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lockfast.challenge.history import Operation
    from lockfast.challenge.recorded import Recorded


def told_late(recorded: Recorded, done: Iterable[Operation]) -> list[Finding]:
    """Return the checks that succeeded after the deadline that the lease itself told with them."""
    found = []
    for one in done:
        if one.act != "check" or not one.is_ok or one.deadline is None:
            continue
        if one.invoked > one.deadline:
            late = one.invoked - one.deadline
            found.append(
                Finding(
                    "told late",
                    one.invoked,
                    f"{one.name}: client {one.client} was told at {one.invoked:.3f} that it may "
                    f"act, {late:.3f} s after the deadline of its own lease",
                    clients=(one.client,),
                    example=tuple(
                        event
                        for event in recorded.events
                        if (event.client, event.number) == (one.client, one.number)
                    ),
                )
            )
    return found
