"""Who waits for whom in a store: the cycles that its holders and lines show.

Names are read one after the other while others come and go, so what one look shows may never
have been so. A cycle does not go away by itself: only what two looks show is one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockfast.cli.listing import owner_fields
from lockfast.core.deadlocks import Link, Owned, Wait, cycles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lockfast.model import Inspection, Owner

Cycle = tuple[Link["Owner"], ...]


def found_twice(look: Callable[[], Iterable[Inspection]]) -> list[Cycle]:
    """Return the cycles of those who wait for each other, each once."""
    first = found(look())
    if not first:
        return []
    again = {frozenset(one) for one in found(look())}
    return [one for one in first if frozenset(one) in again]


def found(seen: Iterable[Inspection]) -> list[Cycle]:
    """Return the cycles that one look shows.

    Who was written down by an older version, without an id of its thread or task, cannot be told
    from others of its process, and is taken to go on.
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
    """Return what each of a cycle waits for, and because of whom."""
    lines = []
    for number, one in enumerate(cycle):
        following = cycle[(number + 1) % len(cycle)].who
        why = "is ahead in line" if one.is_ahead else "holds"
        lines.append(f"{_named(one.who)} waits for {one.name!r}, which {_named(following)} {why}")
    return lines


def cycle_fields(cycle: Cycle) -> list[dict[str, Any]]:
    """Return a cycle for JSON: each waits because of the next, the last because of the first."""
    return [
        {"waits_for": one.name, "behind_a_waiter": one.is_ahead, **owner_fields(one.who)}
        for one in cycle
    ]


def _named(owner: Owner) -> str:
    return f"{owner}, {owner.context!r}" if owner.context else str(owner)
