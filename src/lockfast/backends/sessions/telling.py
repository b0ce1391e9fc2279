"""What people are told of a line: who holds, what stays closed, who waits; pure.

Ages are what the wire says of what it has seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockfast.backends.sessions import records
from lockfast.core.sequencing import hold_of
from lockfast.model import Closing, Held, Holder, Waiter

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lockfast.backends.sessions.answers import Seen
    from lockfast.backends.sessions.line import Entry


def held(
    entries: Sequence[Entry],
    seen: Sequence[Seen | None],
    *,
    place: int | None = None,
    retry_in: float | None = None,
) -> Held:
    """Return the no to a claim, by what was read of those inside."""
    return Held(holders_of(entries, seen), place, retry_in, closing_of(entries, seen))


def holders_of(entries: Sequence[Entry], seen: Sequence[Seen | None]) -> tuple[Holder, ...]:
    """Return who holds; those who have gone meanwhile are left out."""
    return tuple(
        Holder(
            owner=records.owner_in(one.data),
            token=one.token,
            weight=entry.weight,
            age=one.age,
            remaining=None,
            hold=hold_of(entry.claim_id, party=entry.party),
        )
        for entry, one in _there(entries, seen)
        if records.closed_for_in(one.data) is None
    )


def closing_of(entries: Sequence[Entry], seen: Sequence[Seen | None]) -> tuple[Closing, ...]:
    """Return what nobody holds any more, and stays closed: its record says so."""
    return tuple(
        Closing(records.owner_in(one.data), entry.weight, max(0.0, seconds - one.unchanged_for))
        for entry, one in _there(entries, seen)
        if (seconds := records.closed_for_in(one.data)) is not None
    )


def waiters_of(entries: Sequence[Entry], seen: Sequence[Seen | None]) -> tuple[Waiter, ...]:
    """Return who waits, in order."""
    return tuple(
        Waiter(records.owner_in(one.data), entry.weight, place, one.age)
        for place, (entry, one) in enumerate(_there(entries, seen), 1)
    )


def _there(entries: Sequence[Entry], seen: Sequence[Seen | None]) -> Iterator[tuple[Entry, Seen]]:
    for entry, one in zip(entries, seen, strict=True):
        if one is not None:
            yield entry, one
