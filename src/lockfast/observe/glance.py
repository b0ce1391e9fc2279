"""What one look at a store says of its leases: little, and that for sure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lockfast.model import Finding
from lockfast.observe.durations import duration
from lockfast.observe.patterns import Patterns
from lockfast.observe.sighting import Sighting

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lockfast.model import Inspection

LONG: Final = 600.0
"""A ttl from here on is an outage when its holder dies."""
CROWD: Final = 10
"""A line from here on is worth a closer look."""
CLOSER: Final = "look closer: lockfast advise"


def findings_at_a_glance(seen: Iterable[Inspection]) -> tuple[Finding, ...]:
    """Return which patterns have leases with a ttl that is an outage, or a crowd in line."""
    patterns = Patterns()
    longest: dict[str, float] = {}
    crowds: dict[str, int] = {}
    for one in seen:
        pattern = patterns.of(one.name)
        for holder in one.holders:
            ttl = Sighting(at=0.0, age=holder.age, left=holder.remaining).ttl or 0.0
            longest[pattern] = max(longest.get(pattern, 0.0), ttl)
        crowds[pattern] = max(crowds.get(pattern, 0), len(one.line))
    return (
        *(
            Finding(
                level="note",
                subject=pattern,
                message=f"is held with a ttl of {duration(round(ttl))}: so long a holder that "
                "died keeps others out",
                remedy=CLOSER,
            )
            for pattern, ttl in longest.items()
            if ttl >= LONG
        ),
        *(
            Finding(
                level="note",
                subject=pattern,
                message=f"{waiting} wait in one line",
                remedy=CLOSER,
            )
            for pattern, waiting in crowds.items()
            if waiting >= CROWD
        ),
    )
