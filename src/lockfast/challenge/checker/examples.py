"""The fewest events that show a hold, for a person to read."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lockfast.challenge.checker.holds import Hold
    from lockfast.challenge.history import Event


class Examples:
    """The events of a history, found by the hold that they are about."""

    def __init__(self, events: Iterable[Event]) -> None:
        self._of_hold: defaultdict[tuple[str, int], list[Event]] = defaultdict(list)
        for event in events:
            self._of_hold[event.client, event.hold].append(event)

    def of(self, holds: Iterable[Hold]) -> tuple[Event, ...]:
        """Return, by time, how each was acquired and what last proved it."""
        found = [event for hold in holds for event in self._of(hold)]
        return tuple(sorted(found, key=lambda event: event.at))

    def _of(self, hold: Hold) -> Sequence[Event]:
        mine = self._of_hold[hold.client, hold.number]
        last = {one.number for one in mine if one.phase == "invoked" and one.at == hold.until}
        return [one for one in mine if one.act == "acquire" or one.number in last]
