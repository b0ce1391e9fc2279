"""Whether leases lasted for as long as they were held, while nothing strikes.

A holder that is told of its loss in time does no harm; but one that loses every lease after a ttl
has nobody who renews: its background died, or does not get its turn. One lease may be lost at any
time, on a machine that stood still for a moment.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import groupby
from typing import TYPE_CHECKING

from lockfast.challenge.outcome import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lockfast.challenge.history import Operation
    from lockfast.challenge.recorded import Recorded

IN_A_ROW = 3
"""So many in a row are no accident."""


def not_renewed(recorded: Recorded, done: Sequence[Operation]) -> Iterator[Finding]:
    """Yield the clients that lost one lease after the other for want of a renewal."""
    if not recorded.is_renewed:
        return
    for client, holds in _by_client(done).items():
        ends = [end for hold in holds if (end := _end_of(hold, recorded)) is not None]
        for was_lost, row in groupby(ends, key=lambda end: end[0]):
            times = [at for _, at in row]
            if was_lost and len(times) >= IN_A_ROW:
                yield Finding(
                    "stall",
                    times[0],
                    f"client {client} lost {len(times)} leases in a row from {times[0]:.3f} on, "
                    "though nothing struck: nothing renews them",
                    clients=(client,),
                )


def _by_client(done: Iterable[Operation]) -> dict[str, list[list[Operation]]]:
    """Return the operations of each hold that was granted, by client and in their order."""
    found: defaultdict[str, dict[int, list[Operation]]] = defaultdict(dict)
    for one in done:
        if one.act == "acquire" and one.is_ok:
            found[one.client][one.hold] = [one]
        elif one.hold in found[one.client]:
            found[one.client][one.hold].append(one)
    return {client: list(holds.values()) for client, holds in found.items()}


def _end_of(hold: Sequence[Operation], recorded: Recorded) -> tuple[bool, float] | None:
    """Return whether it was lost, and when; None if it proves nothing.

    It does where a ttl went by since it was granted, and nothing struck in all that time.
    """
    granted = hold[0].answered
    checks = [one for one in hold if one.act == "check" and one.answered is not None]
    if granted is None or not checks:
        return None
    last = checks[-1]
    if not any(start <= hold[0].invoked and last.invoked <= end for start, end in recorded.quiets):
        return None
    if not last.is_ok:
        return True, last.invoked
    return (False, last.invoked) if last.invoked > granted + recorded.ttl else None
