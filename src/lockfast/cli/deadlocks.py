"""Find deadlocks in a store, from the holders and lines of its names.

Names are read one after the other while clients come and go, so a single survey may show a state
that never existed. A deadlock does not go away by itself, so a cycle counts only if two surveys
show it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockfast.core.deadlocks import Link, Owned, Wait, cycles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lockfast.model import Inspection, Owner

Cycle = tuple[Link["Owner"], ...]


def confirmed_cycles(look: Callable[[], Iterable[Inspection]]) -> list[Cycle]:
    """Return each cycle of owners that wait for each other, if two surveys show it."""
    first = found(look())
    if not first:
        return []
    again = {frozenset(one) for one in found(look())}
    return [one for one in first if frozenset(one) in again]


def found(seen: Iterable[Inspection]) -> list[Cycle]:
    """Return the cycles that one survey shows.

    An owner recorded by an older version, without the id of its thread or task, cannot be
    distinguished from others in its process, and and is ignored, as if nothing blocked that owner.
    """
    seen = list(seen)
    waits = [
        Wait(waiter.owner, one.name, waiter.weight, one.capacity, waiter.place)
        for one in seen
        for waiter in one.line
        if waiter.owner.asker
    ]
    owned = [
        Owned(holder.owner, one.name, holder.weight)
        for one in seen
        for holder in one.holders
        if holder.owner.asker
    ]
    return cycles(waits, owned)


def sentences(cycle: Cycle) -> list[str]:
    """Return a sentence for each owner in a cycle, with the name and owner that it waits for."""
    lines = []
    for number, one in enumerate(cycle):
        following = cycle[(number + 1) % len(cycle)].who
        why = "is ahead in line" if one.is_ahead else "holds"
        lines.append(f"{_named(one.who)} waits for {one.name!r}, which {_named(following)} {why}")
    return lines


def _named(owner: Owner) -> str:
    return f"{owner}, {owner.context!r}" if owner.context else str(owner)
